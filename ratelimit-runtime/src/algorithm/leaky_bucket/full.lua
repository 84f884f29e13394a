-- x: the theoretical arrival time, when the bucket runs empty; y: and this many per-ths of a
-- microsecond more
local leaky_bucket = counters {
  each = 2,
  at = function(x, y, z, per, micros, now)
    if x < now then
      return now, 0, z
    end
    return x, y, z
  end,
  status = function(x, y, z, per, micros, capacity, cost, now)
    local backlog = x - now
    local time, rest = mul_div(math.max(capacity - cost, 0), micros, per)
    local wait = math.max(backlog - time + (y > rest and 1 or 0), 0)
    -- The backlog in tokens, rounded up.
    local tokens, units = mul_div(backlog, per, micros)
    tokens = tokens + math.ceil((units + y) / micros)
    return wait, math.max(capacity - tokens, 0), backlog + (y > 0 and 1 or 0)
  end,
  charge = function(x, y, z, per, micros, cost)
    local time, rest = mul_div(cost, micros, per)
    local sum = y + rest
    local over = sum % per
    return x + time + (sum - over) / per, over, z
  end,
  ends = function(x, y, z, per, micros)
    return x + (y > 0 and 1 or 0)
  end,
  begin = function(x, y, z, window)
    return z
  end,
  horizon = function(per, micros, capacity)
    return refill(capacity, 0, per, micros)
  end,
  -- Another rate counts in other parts: the next whole microsecond never admits more.
  under = function(x, y)
    return y > 0 and x + 1 or x, 0
  end,
  level = function(x, y, now)
    return x - now, y
  end,
  weight = function(cost, per, micros)
    return mul_div(cost, micros, per)
  end,
  drained = function(lasts, per, micros)
    return lasts, 0, per
  end,
}

return answering(leaky_bucket)
