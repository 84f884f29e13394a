-- x: tokens missing, y: and this many window-ths of one, z: at this time
local token_bucket = counters {
  at = function(x, y, z, max, window, now)
    local whole, rest = mul_div(math.max(now - z, 0), max, window)
    x, y = less(x, y, whole, rest, window)
    return x, y, now
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
  life = function(x, y, z, max, window, now)
    return refill(x, y, max, window)
  end,
  horizon = function(max, window, capacity)
    return refill(capacity, 0, max, window)
  end,
  level = function(x, y, z, max, now)
    return x == 0 and y == 0 and -1 or x, y
  end,
  with_level = function(x, y, z, now, level, rest)
    return level, rest, z
  end,
  weight = function(z, max, window, cost)
    return cost, 0, window
  end,
}

return answering(token_bucket)
