-- One limit, nothing reserved, no block, a clock that goes forward, and numbers that can be multiplied exactly.
-- `full/leaky_bucket` has the rest, and the format.
repeat
  if not asks then
    break
  end
  local EXACT, NONE = 9007199254740992, 4503599627370496
  if (capacity + 1) * window + max >= EXACT then
    break
  end
  -- When it runs empty, and parts of a microsecond.
  local empty, parts, first = now, 0, now
  local older, older_low, older_rest, newer, newer_low, newer_rest = now, NONE, 0, now, NONE, 0
  local is_fresh = true
  local expires = 0
  local state = call('GET', key)
  if state then
    if #state ~= 120 then
      break
    end
    local newest, blocked_until, _, until_then, ticket, _, x, y, z, a, b, c, d, e, f =
      parse('<ddddddddddddddd', state)
    if newest > now or blocked_until > 0 then
      break
    end
    if now < until_then then
      first, expires = ticket < now and ticket or now, until_then
      if x >= now then
        empty, parts = x, y
        if z ~= max then
          -- Another rate counts in other parts: the next whole microsecond never admits more.
          empty, parts = y > 0 and x + 1 or x, 0
        elseif x > now or y > 0 then
          is_fresh = false
          older, older_low, older_rest, newer, newer_low, newer_rest = a, b, c, d, e, f
        end
      end
    end
  end
  local level = empty - now
  if level * max >= EXACT - 2 * window - max then
    break
  end
  local tokens = level * max + parts
  tokens = (tokens + (window - tokens % window) % window) / window
  local room = capacity - tokens
  local admitted = (room - room % cost) / cost
  if admitted <= 0 then
    if block > 0 then
      break
    end
    local full = (capacity - cost) * window
    local rest = full % max
    local wait = level - (full - rest) / max + (parts > rest and 1 or 0)
    local reset = level + (parts > 0 and 1 or 0)
    local life = expires - now
    if wait > life then
      wait = life
    end
    if reset > life then
      reset = life
    end
    record, answered = pack(RECORD, 0, 0, calls, capacity > tokens and capacity - tokens or 0, wait, reset, 0), calls
    break
  end
  if admitted > calls then
    admitted = calls
  end

  -- The low water: what this charge finds, and from the second on, what the one before leaves.
  local moved = false
  if not is_fresh then
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
    local units = cost * window + parts
    newer_rest = units % max
    newer_low = level + (units - newer_rest) / max
    if is_fresh then
      older_low, older_rest = newer_low, newer_rest
    end
  end

  local units = admitted * cost * window + parts
  local rest = units % max
  empty = empty + (units - rest) / max
  local lasts = empty - now + (rest > 0 and 1 or 0)
  local kept = base + (lasts < shortest and shortest or lasts)
  call('SET', key, pack('<ddddddddddddddd', now, 0, 0, now + lasts, first, now, empty, rest, max, older, older_low,
    older_rest, newer, newer_low, newer_rest), EXPIRY,
    (kept - kept % 1000) / 1000)
  record, answered = pack(RECORD, 1, 0, admitted, capacity - tokens - admitted * cost, 0, lasts, now), admitted
until true
