-- Nothing reserved, no block, a clock that goes forward, and a rate that can be reckoned with
-- exactly. `full.lua` has the rest, and the format.
repeat
  if not asks then
    break
  end
  local EXACT, NONE = 9007199254740992, 4503599627370496
  local first, expires, x, y, z = now, now, 0, 0, 0
  local older, older_low, older_rest, newer, newer_low, newer_rest
  local state = call('GET', key)
  if state then
    if #state ~= 48 + 72 * limits then
      break
    end
    local newest, blocked_until, _, until_then, ticket
    newest, blocked_until, _, until_then, ticket, _, x, y, z,
      older, older_low, older_rest, newer, newer_low, newer_rest = parse('<ddddddddddddddd', state)
    if newest > now or blocked_until > 0 then
      break
    end
    if now < until_then then
      first, expires = ticket < now and ticket or now, until_then
    else
      state, x = nil, 0
    end
  end

  -- How many calls each limit has room for; else how long it waits. `verdict` in `common.lua` says
  -- which one decides.
  local admitted = calls
  local decides, wait, left, reset = 0, 0, EXACT, 0
  -- How long until it is empty, parts of a microsecond, and by how much the rate was reduced.
  local levels = { 0, 0, 0 }
  for i = 1, limits do
    if i > 1 then
      max, window, capacity = parse('<ddd', question, 32 * i)
      if state then
        x, y, z = parse('<ddd', state, 72 * i - 23)
      end
    end
    if x < now then
      x, y = now, 0
    end
    if z ~= max and y > 0 then
      -- Another rate counts in other parts: the next whole microsecond never admits more.
      x, y = x + 1, 0
    end
    -- Where a product would not be exact, the rate in lowest terms.
    local scale = 1
    if (capacity + 1) * window + max >= EXACT then
      local rest = window
      scale = max
      while rest > 0 do
        scale, rest = rest, scale % rest
      end
    end
    local per_micros, micros, parts = max / scale, window / scale, y / scale
    local level = x - now
    if (capacity + 1) * micros + per_micros >= EXACT or level * per_micros >= EXACT - 2 * micros - per_micros
      or parts % 1 > 0 then
      admitted = nil
      break
    end
    local tokens = level * per_micros + parts
    local room, waits = capacity - (tokens + -tokens % micros) / micros, 0
    local fits = (room - room % cost) / cost
    if fits <= 0 then
      local full = (capacity - cost) * micros
      local rest = full % per_micros
      fits, waits, room = 0, level - (full - rest) / per_micros + (parts > rest and 1 or 0), room > 0 and room or 0
    end
    if waits > wait or waits == wait and room < left then
      decides, wait, left, reset = i - 1, waits, room, level + (y > 0 and 1 or 0)
    end
    if fits < admitted then
      admitted = fits
    end
    levels[3 * i - 2], levels[3 * i - 1], levels[3 * i] = level, y, scale
  end
  if not admitted then
    break
  end
  if admitted == 0 or peeks then
    local life = expires - now
    if peeks or block == 0 then
      record, answered = pack(RECORD, wait == 0 and 1 or 0, decides, calls, left, wait < life and wait or life,
        reset < life and reset or life, 0), calls
    end
    break
  end

  local lasts, states = 0, nil
  for i = 1, limits do
    if limits > 1 then
      max, window = parse('<dd', question, 32 * i)
      if state then
        z, older, older_low, older_rest, newer, newer_low, newer_rest = parse('<ddddddd', state, 72 * i - 7)
      end
    end
    local level, parts, scale = levels[3 * i - 2], levels[3 * i - 1], levels[3 * i]
    local per_micros, micros = max / scale, window / scale
    -- The low water: what this charge finds, and from the second on, what the one before leaves.
    local is_fresh, moved = level == 0 and parts == 0 or z ~= max, false
    if is_fresh then
      older, older_low, older_rest, newer, newer_low, newer_rest = now, NONE, 0, now, NONE, 0
    else
      if level < older_low or level == older_low and parts < older_rest then
        older_low, older_rest = level, parts
      end
      if level < newer_low or level == newer_low and parts < newer_rest then
        newer_low, newer_rest = level, parts
      end
      moved = now >= newer + window
      if moved then
        older, older_low, older_rest, newer, newer_low, newer_rest = newer, newer_low, newer_rest, now, NONE, 0
      end
    end
    if admitted > 1 and (is_fresh or moved) then
      local units = cost * micros + parts / scale
      newer_rest = units % per_micros * scale
      newer_low = level + (units - units % per_micros) / per_micros
      if is_fresh then
        older_low, older_rest = newer_low, newer_rest
      end
    end
    local units = admitted * cost * micros + parts / scale
    local rest = units % per_micros
    level = level + (units - rest) / per_micros
    local life = level + (rest > 0 and 1 or 0)
    if life > lasts then
      lasts = life
    end
    if i == decides + 1 then
      reset = life
    end
    local numbers =
      pack('<ddddddddd', now + level, rest * scale, max, older, older_low, older_rest, newer, newer_low, newer_rest)
    states = states and states .. numbers or numbers
  end
  local kept = base + (lasts < shortest and shortest or lasts)
  call('SET', key, pack('<dddddd', now, 0, 0, now + lasts, first, now) .. states, EXPIRY, (kept - kept % 1000) / 1000)
  record, answered = pack(RECORD, 1, decides, admitted, left - admitted * cost, 0, reset, now), admitted
until true
