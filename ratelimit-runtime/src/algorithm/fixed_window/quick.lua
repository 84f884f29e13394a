-- Nothing reserved, no block, and a clock that goes forward. `full.lua` has the rest, and the
-- format.
repeat
  if not asks then
    break
  end
  local first, expires, x, y = now, now, 0, 0
  local state = call('GET', key)
  if state then
    if #state ~= 48 + 24 * limits then
      break
    end
    local newest, blocked_until, _, until_then, ticket
    newest, blocked_until, _, until_then, ticket, _, x, y = parse('<dddddddd', state)
    if newest > now or blocked_until > 0 then
      break
    end
    if now < until_then then
      first, expires = ticket < now and ticket or now, until_then
    else
      state, y = nil, 0
    end
  end

  -- How many calls each limit has room for; else how long it waits. `verdict` in `common.lua` says
  -- which one decides.
  local admitted, lasts = calls, 0
  local decides, wait, left, reset = 0, 0, math.huge, 0
  local numbers = { 0, 0 }
  for i = 1, limits do
    if i > 1 then
      max, window = parse('<dd', question, 32 * i)
      if state then
        x, y = parse('<dd', state, 24 * i + 25)
      end
    end
    if y == 0 or now >= x + window then
      x, y = now, 0
    end
    local ends, room, waits = x + window - now, max - y, 0
    local fits = (room - room % cost) / cost
    if fits <= 0 then
      fits, waits, room = 0, ends, room > 0 and room or 0
    end
    if waits > wait or waits == wait and room < left then
      decides, wait, left, reset = i - 1, waits, room, (y > 0 or not peeks) and ends or 0
    end
    if fits < admitted then
      admitted = fits
    end
    if ends > lasts then
      lasts = ends
    end
    numbers[2 * i - 1], numbers[2 * i] = x, y
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
    states = states .. pack('<ddd', numbers[2 * i - 1], numbers[2 * i] + weight, 0)
  end
  local kept = base + (lasts < shortest and shortest or lasts)
  call('SET', key, pack('<dddddd', now, 0, 0, now + lasts, first, now) .. states, EXPIRY, (kept - kept % 1000) / 1000)
  record, answered = pack(RECORD, 1, decides, admitted, left - weight, 0, reset, now), admitted
until true
