-- Nothing reserved, no block, a clock that goes forward, and numbers that can be multiplied
-- exactly. `full.lua` has the rest, and the format.
repeat
  if not asks then
    break
  end
  local EXACT = 9007199254740992
  local first, expires, x, y, z = now, now, 0, 0, 0
  local state = call('GET', key)
  if state then
    if #state ~= 48 + 24 * limits then
      break
    end
    local newest, blocked_until, _, until_then, ticket
    newest, blocked_until, _, until_then, ticket, _, x, y, z = parse('<ddddddddd', state)
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
  local admitted, lasts = calls, 0
  local decides, wait, left, reset = 0, 0, EXACT, 0
  local numbers = { 0, 0, 0 }
  for i = 1, limits do
    if i > 1 then
      max, window = parse('<dd', question, 32 * i)
      if state then
        x, y, z = parse('<ddd', state, 24 * i + 25)
      end
    end
    if (y > z and y or z) * window >= EXACT then
      admitted = nil
      break
    end
    if not state or now >= x + 2 * window then
      x, y, z = now, 0, 0
    elseif now >= x + window then
      x, y, z = x + window, 0, y
    end
    local elapsed = now - x
    local ends = 2 * window - elapsed
    local weight = z * (window - elapsed)
    local all = y + (weight + (window - weight % window) % window) / window
    local room, waits = max - all, 0
    local fits = (room - room % cost) / cost
    if fits <= 0 then
      -- When so much of the last window has gone by that what is used leaves room.
      local passed, share, last = 0, max - cost - y, z
      if share < 0 then
        passed, share, last = window, max - cost, y
      end
      if last > share then
        share = share * window
        passed = passed + window - (share - share % last) / last
      end
      fits, waits, room = 0, passed - elapsed, room > 0 and room or 0
    end
    if waits > wait or waits == wait and room < left then
      decides, wait, left = i - 1, waits, room
      reset = (y > 0 or not peeks and waits == 0) and ends or z > 0 and ends - window or 0
    end
    if fits < admitted then
      admitted = fits
    end
    if ends > lasts then
      lasts = ends
    end
    numbers[3 * i - 2], numbers[3 * i - 1], numbers[3 * i] = x, y, z
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

  local weight, states = admitted * cost, ''
  for i = 1, limits do
    states = states .. pack('<ddd', numbers[3 * i - 2], numbers[3 * i - 1] + weight, numbers[3 * i])
  end
  local kept = base + (lasts < shortest and shortest or lasts)
  call('SET', key, pack('<dddddd', now, 0, 0, now + lasts, first, now) .. states, EXPIRY, (kept - kept % 1000) / 1000)
  record, answered = pack(RECORD, 1, decides, admitted, left - weight, 0, reset, now), admitted
until true
