-- One limit, nothing reserved, no block, and a clock that goes forward. `full/fixed_window` has the rest, and the format.
local function quick(key, layout, calls, cost, block, max, window)
  local start, used, first, expires = now, 0, now, 0
  local state = call('GET', key)
  if state then
    if #state ~= 72 then
      return
    end
    local newest, blocked_until, _, until_then, ticket, _, x, y = parse('<dddddddd', state)
    if newest > now or blocked_until > 0 then
      return
    end
    if now < until_then then
      first, expires = ticket < now and ticket or now, until_then
      if y > 0 and now < x + window then
        start, used = x, y
      end
    end
  end
  local ends = start + window - now
  local admitted = math.floor((max - used) / cost)
  if admitted <= 0 then
    if block > 0 or used == 0 then
      return
    end
    if ends > expires - now then
      ends = expires - now
    end
    return pack(RECORD, 0, 0, calls, used < max and max - used or 0, ends, ends, 0), calls
  end
  if admitted > calls then
    admitted = calls
  end
  used = used + admitted * cost
  call('SET', key, pack('<ddddddddd', now, 0, 0, start + window, first, now, start, used, 0), EXPIRY, millis(ends))
  return pack(RECORD, 1, 0, admitted, max - used, 0, ends, now), admitted
end
