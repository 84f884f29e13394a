-- One limit, nothing reserved, no block, and a clock that goes forward. `full/fixed_window` has the rest, and the format.
repeat
  if not asks then
    break
  end
  local start, used, first, expires = now, 0, now, 0
  local state = call('GET', key)
  if state then
    if #state ~= 72 then
      break
    end
    local newest, blocked_until, _, until_then, ticket, _, x, y = parse('<dddddddd', state)
    if newest > now or blocked_until > 0 then
      break
    end
    if now < until_then then
      first, expires = ticket < now and ticket or now, until_then
      if y > 0 and now < x + window then
        start, used = x, y
      end
    end
  end
  local ends = start + window - now
  local room = max - used
  local admitted = (room - room % cost) / cost
  if admitted <= 0 then
    if block > 0 or used == 0 then
      break
    end
    if ends > expires - now then
      ends = expires - now
    end
    record, answered = pack(RECORD, 0, 0, calls, used < max and max - used or 0, ends, ends, 0), calls
    break
  end
  if admitted > calls then
    admitted = calls
  end
  used = used + admitted * cost
  local kept = base + (ends < shortest and shortest or ends)
  call('SET', key, pack('<ddddddddd', now, 0, 0, start + window, first, now, start, used, 0), EXPIRY,
    (kept - kept % 1000) / 1000)
  record, answered = pack(RECORD, 1, 0, admitted, max - used, 0, ends, now), admitted
until true
