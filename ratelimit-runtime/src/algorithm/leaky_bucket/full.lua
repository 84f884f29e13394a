-- x: the theoretical arrival time, y: and this many z-ths of a microsecond, z: the max of the
-- newest charge
local function under(x, y, z, max)
  -- Another rate counts in other parts: the next whole microsecond never admits more.
  if z ~= max then
    return y > 0 and x + 1 or x, 0
  end
  return x, y
end

local leaky_bucket = counters {
  at = function(x, y, z, max, window, now)
    if x < now then
      return now, 0, z
    end
    return x, y, z
  end,
  status = function(x, y, z, max, window, capacity, cost, now)
    x, y = under(x, y, z, max)
    local backlog = x - now
    local time, rest = mul_div(math.max(capacity - cost, 0), window, max)
    local wait = math.max(backlog - time + (y > rest and 1 or 0), 0)
    -- The backlog in tokens, rounded up.
    local tokens, units = mul_div(backlog, max, window)
    tokens = tokens + math.ceil((units + y) / window)
    return wait, math.max(capacity - tokens, 0), backlog + (y > 0 and 1 or 0)
  end,
  charge = function(x, y, z, max, window, cost)
    x, y = under(x, y, z, max)
    local time, rest = mul_div(cost, window, max)
    local sum = y + rest
    local over = sum % max
    return x + time + (sum - over) / max, over, max
  end,
  life = function(x, y, z, max, window, now)
    return x - now + (y > 0 and 1 or 0)
  end,
  horizon = function(max, window, capacity)
    return refill(capacity, 0, max, window)
  end,
  level = function(x, y, z, max, now)
    return (z ~= max or x == now and y == 0) and -1 or x - now, y
  end,
  with_level = function(x, y, z, now, level, rest)
    return now + level, rest, z
  end,
  -- Charges before another `max` are behind the low water, so these are the parts that it was
  -- charged in.
  weight = function(z, max, window, cost)
    local parts = math.max(z, 1)
    local time, rest = mul_div(cost, window, parts)
    return time, rest, parts
  end,
}

return answering(leaky_bucket)
