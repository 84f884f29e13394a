-- x: tokens missing, y: and this many window-ths of one, z: at this time

-- How long `tokens` and `rest` window-ths of one take, rounded up.
local function refill(tokens, rest, max, window)
  local time, over = mul_div(tokens, window, max)
  over = over + rest
  return time + math.ceil(over / max)
end

local function bucket_horizon(max, window, capacity)
  return refill(capacity, 0, max, window)
end

local token_bucket = cells {
  at = function(x, y, z, max, window, now)
    local whole, rest = mul_div(math.max(now - z, 0), max, window)
    if whole > x or whole == x and rest >= y then
      return 0, 0, now
    end
    if rest > y then
      return x - whole - 1, y + window - rest, now
    end
    return x - whole, y - rest, now
  end,
  standing = function(x, y, z, max, window, capacity, cost, now)
    local needed = x + (y > 0 and 1 or 0)
    local wait = 0
    if needed + cost > capacity then
      wait = refill(x + cost - capacity, y, max, window)
    end
    return wait, math.max(capacity - needed, 0), refill(x, y, max, window)
  end,
  charge = function(x, y, z, max, window, cost)
    return x + cost, y, z
  end,
  refund = function(x, y, z, max, window, cost, since, now)
    -- What has been refilled since was paid back already.
    local whole, rest = mul_div(math.max(now - since, 0), max, window)
    if whole >= cost or x == 0 and y == 0 then
      return x, y, z, false
    end
    whole = cost - whole
    if rest > 0 then
      whole, rest = whole - 1, window - rest
    end
    if whole > x or whole == x and rest >= y then
      return 0, 0, z, true
    elseif rest > y then
      return x - whole - 1, y + window - rest, z, true
    end
    return x - whole, y - rest, z, true
  end,
  life = function(x, y, z, max, window, now)
    return refill(x, y, max, window)
  end,
  horizon = bucket_horizon,
}
