-- x: tokens missing at the time z, y: and this many micros-ths of one more
local token_bucket = counters {
  each = 2,
  at = function(x, y, z, per, micros, now)
    local whole, rest = mul_div(math.max(now - z, 0), per, micros)
    x, y = less(x, y, whole, rest, micros)
    return x, y, now
  end,
  status = function(x, y, z, per, micros, capacity, cost, now)
    local needed = x + (y > 0 and 1 or 0)
    local wait = 0
    if needed + cost > capacity then
      wait = refill(x + cost - capacity, y, per, micros)
    end
    return wait, math.max(capacity - needed, 0), refill(x, y, per, micros)
  end,
  charge = function(x, y, z, per, micros, cost)
    return x + cost, y, z
  end,
  ends = function(x, y, z, per, micros)
    return z + refill(x, y, per, micros)
  end,
  begin = function(x, y, z, window)
    return z
  end,
  horizon = function(per, micros, capacity)
    return refill(capacity, 0, per, micros)
  end,
  -- As for the leaky bucket: the next whole token.
  under = function(x, y)
    return y > 0 and x + 1 or x, 0
  end,
  level = function(x, y, now)
    return x, y
  end,
  weight = function(cost, per, micros)
    return cost, 0
  end,
  drained = function(lasts, per, micros)
    local whole, rest = mul_div(lasts, per, micros)
    return whole, rest, micros
  end,
}

return answering(token_bucket)
