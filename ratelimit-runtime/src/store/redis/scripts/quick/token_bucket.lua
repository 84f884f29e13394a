-- One limit, nothing reserved, no block, a clock that goes forward, and numbers that can be multiplied exactly.
-- `full/token_bucket` has the rest, and the format.
repeat
  if not asks then
    break
  end
  local EXACT, NONE = 9007199254740992, 4503599627370496
  if (capacity + 1) * window + max >= EXACT then
    break
  end
  -- Tokens missing, and window-ths of one.
  local missing, parts, first = 0, 0, now
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
      local refilled = (now - z) * max
      if now < z or refilled >= EXACT or x * window >= EXACT - window then
        break
      end
      local units = x * window + y - refilled
      if units > 0 then
        is_fresh = false
        parts = units % window
        missing = (units - parts) / window
        older, older_low, older_rest, newer, newer_low, newer_rest = a, b, c, d, e, f
      end
    end
  end
  local needed = parts > 0 and missing + 1 or missing
  local room = capacity - needed
  local admitted = (room - room % cost) / cost
  if admitted <= 0 then
    if block > 0 then
      break
    end
    local units = (missing + cost - capacity) * window + parts
    local wait = (units + (max - units % max) % max) / max
    units = missing * window + parts
    local reset = (units + (max - units % max) % max) / max
    local life = expires - now
    if wait > life then
      wait = life
    end
    if reset > life then
      reset = life
    end
    record, answered = pack(RECORD, 0, 0, calls, capacity > needed and capacity - needed or 0, wait, reset, 0), calls
    break
  end
  if admitted > calls then
    admitted = calls
  end

  -- The low water: what this charge finds, and from the second on, what the one before leaves.
  local moved = false
  if not is_fresh then
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

  missing = missing + admitted * cost
  local units = missing * window + parts
  local lasts = (units + (max - units % max) % max) / max
  local kept = base + (lasts < shortest and shortest or lasts)
  call('SET', key, pack('<ddddddddddddddd', now, 0, 0, now + lasts, first, now, missing, parts, now, older, older_low,
    older_rest, newer, newer_low, newer_rest), EXPIRY,
    (kept - kept % 1000) / 1000)
  record, answered = pack(RECORD, 1, 0, admitted, capacity - needed - admitted * cost, 0, lasts, now), admitted
until true
