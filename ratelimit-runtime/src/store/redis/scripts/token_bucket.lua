-- x: tokens missing, y: and this many window-ths of one, z: at this time
--
-- needs: arithmetic counters
local token_bucket = counters {
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
  status = function(x, y, z, max, window, capacity, cost, now)
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
  refund = function(x, y, z, max, window, cost, ticket, now, low)
    local tokens = math.min(cost, low)
    if tokens == 0 or x == 0 and y == 0 then
      return x, y, z, 0
    elseif tokens > x or tokens == x and y == 0 then
      return 0, 0, z, tokens
    end
    return x - tokens, y, z, tokens
  end,
  life = function(x, y, z, max, window, now)
    return refill(x, y, max, window)
  end,
  horizon = function(max, window, capacity)
    return refill(capacity, 0, max, window)
  end,
  level = function(x, y, z, max, now)
    return x == 0 and y == 0 and -1 or x
  end,
}
