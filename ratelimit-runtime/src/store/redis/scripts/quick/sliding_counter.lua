-- One limit, nothing reserved, no block, a clock that goes forward, and numbers that can be multiplied exactly.
-- `full/sliding_counter` has the rest, and the format.
repeat
  if not asks then
    break
  end
  if max * window >= 9007199254740992 then
    break
  end
  local start, used, before, first, expires = now, 0, 0, now, 0
  local state = call('GET', key)
  if state then
    if #state ~= 72 then
      break
    end
    local newest, blocked_until, _, until_then, ticket, _, x, y, z = parse('<ddddddddd', state)
    if newest > now or blocked_until > 0 or (y > z and y or z) * window >= 9007199254740992 then
      break
    end
    if now < until_then then
      first, expires = ticket < now and ticket or now, until_then
      if now < x + window then
        start, used, before = x, y, z
      elseif now < x + 2 * window then
        start, before = x + window, y
      end
    end
  end
  local elapsed = now - start
  local weight = before * (window - elapsed)
  local all = used + (weight + (window - weight % window) % window) / window
  local room = max - all
  local admitted = (room - room % cost) / cost
  if admitted <= 0 then
    if block > 0 then
      break
    end
    -- When so much of the last window has gone by that what is used leaves room.
    local ends, room, last = window, max - cost - used, before
    if room < 0 then
      ends, room, last = 2 * window, max - cost, used
    end
    local wait = 0
    if last > room then
      local share = room * window
      wait = window - (share - share % last) / last
    end
    wait = ends - window + wait - elapsed
    local reset = used > 0 and 2 * window - elapsed or before > 0 and window - elapsed or 0
    local life = expires - now
    if wait > life then
      wait = life
    end
    if reset > life then
      reset = life
    end
    record, answered = pack(RECORD, 0, 0, calls, max > all and max - all or 0, wait, reset, 0), calls
    break
  end
  if admitted > calls then
    admitted = calls
  end
  used = used + admitted * cost
  local lasts = 2 * window - elapsed
  local kept = base + (lasts < shortest and shortest or lasts)
  call('SET', key, pack('<ddddddddd', now, 0, 0, now + lasts, first, now, start, used, before), EXPIRY,
    (kept - kept % 1000) / 1000)
  record, answered = pack(RECORD, 1, 0, admitted, max - all - admitted * cost, 0, lasts, now), admitted
until true
