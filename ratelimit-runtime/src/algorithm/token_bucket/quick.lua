-- Nothing reserved, no block, a clock that goes forward, and a rate that can be reckoned with
-- exactly. `full.lua` has the rest, and the format.
repeat
  if not asks then
    break
  end
  local EXACT, NONE = 9007199254740992, 4503599627370496
  local first, expires, x, y, z = now, now, 0, 0, now
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
      state, x, y, z = nil, 0, 0, now
    end
  end

  -- How many calls each limit has room for; else how long it waits. `verdict` in `common.lua` says
  -- which one decides.
  local admitted = calls
  local decides, wait, left, reset = 0, 0, EXACT, 0
  -- Tokens missing, window-ths of one, and by how much the rate was reduced.
  local levels = { 0, 0, 0 }
  for i = 1, limits do
    if i > 1 then
      max, window, capacity = parse('<ddd', question, 32 * i)
      if state then
        x, y, z = parse('<ddd', state, 72 * i - 23)
      end
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
    local per_micros, micros, rest = max / scale, window / scale, y / scale
    local refilled = (now - z) * per_micros
    if (capacity + 1) * micros + per_micros >= EXACT or now < z or refilled >= EXACT or x * micros >= EXACT - micros
      or rest % 1 > 0 then
      admitted = nil
      break
    end
    local units = x * micros + rest - refilled
    units = units > 0 and units or 0
    local parts = units % micros
    local missing = (units - parts) / micros
    local room, waits = capacity - missing - (parts > 0 and 1 or 0), 0
    local fits = (room - room % cost) / cost
    if fits <= 0 then
      local needed = units + (cost - capacity) * micros
      fits, waits, room = 0, (needed + -needed % per_micros) / per_micros, room > 0 and room or 0
    end
    if waits > wait or waits == wait and room < left then
      decides, wait, left, reset = i - 1, waits, room, (units + -units % per_micros) / per_micros
    end
    if fits < admitted then
      admitted = fits
    end
    levels[3 * i - 2], levels[3 * i - 1], levels[3 * i] = missing, parts * scale, scale
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

  local weight, lasts, states = admitted * cost, 0, nil
  for i = 1, limits do
    if limits > 1 then
      max, window = parse('<dd', question, 32 * i)
      if state then
        older, older_low, older_rest, newer, newer_low, newer_rest = parse('<dddddd', state, 72 * i + 1)
      end
    end
    local missing, parts, scale = levels[3 * i - 2], levels[3 * i - 1], levels[3 * i]
    -- The low water: what this charge finds, and from the second on, what the one before leaves.
    local is_fresh, moved = missing == 0 and parts == 0, false
    if is_fresh then
      older, older_low, older_rest, newer, newer_low, newer_rest = now, NONE, 0, now, NONE, 0
    else
      if missing < older_low or missing == older_low and parts < older_rest then
        older_low, older_rest = missing, parts
      end
      if missing < newer_low or missing == newer_low and parts < newer_rest then
        newer_low, newer_rest = missing, parts
      end
      moved = now >= newer + window
      if moved then
        older, older_low, older_rest, newer, newer_low, newer_rest = newer, newer_low, newer_rest, now, NONE, 0
      end
    end
    if admitted > 1 and (is_fresh or moved) then
      newer_low, newer_rest = missing + cost, parts
      if is_fresh then
        older_low, older_rest = newer_low, newer_rest
      end
    end
    missing = missing + weight
    local units, per_micros = (missing * (window / scale) + parts / scale), max / scale
    local life = (units + -units % per_micros) / per_micros
    if life > lasts then
      lasts = life
    end
    if i == decides + 1 then
      reset = life
    end
    local numbers =
      pack('<ddddddddd', missing, parts, now, older, older_low, older_rest, newer, newer_low, newer_rest)
    states = states and states .. numbers or numbers
  end
  local kept = base + (lasts < shortest and shortest or lasts)
  call('SET', key, pack('<dddddd', now, 0, 0, now + lasts, first, now) .. states, EXPIRY, (kept - kept % 1000) / 1000)
  record, answered = pack(RECORD, 1, decides, admitted, left - weight, 0, reset, now), admitted
until true
