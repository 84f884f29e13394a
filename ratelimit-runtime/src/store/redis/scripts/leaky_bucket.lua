-- x: the theoretical arrival time, y: and this many z-ths of a microsecond, z: the max that y was counted in
local leaky_bucket = cells {
  at = function(x, y, z, max, window, now)
    if x < now then
      return now, 0, max
    elseif z ~= max then
      return y > 0 and x + 1 or x, 0, max
    end
    return x, y, z
  end,
  standing = function(x, y, z, max, window, capacity, cost, now)
    local backlog = x - now
    local time, rest = mul_div(capacity - cost, window, max)
    local wait = math.max(backlog - time + (y > rest and 1 or 0), 0)
    -- The backlog in tokens, rounded up.
    local tokens, units = mul_div(backlog, max, window)
    tokens = tokens + math.ceil((units + y) / window)
    return wait, math.max(capacity - tokens, 0), backlog + (y > 0 and 1 or 0)
  end,
  charge = function(x, y, z, max, window, cost)
    local time, rest = mul_div(cost, window, max)
    local sum = y + rest
    local over = sum % max
    return x + time + (sum - over) / max, over, z
  end,
  refund = function(x, y, z, max, window, cost, since, now)
    local time, rest = mul_div(cost, window, max)
    -- The time since the charge has paid for part of it.
    time = time - math.max(now - since, 0)
    local backlog = x - now
    if time < 0 or time == 0 and rest == 0 or backlog == 0 and y == 0 then
      return x, y, z, false
    elseif time > backlog or time == backlog and rest >= y then
      return now, 0, z, true
    elseif rest > y then
      return x - time - 1, y + max - rest, z, true
    end
    return x - time, y - rest, z, true
  end,
  life = function(x, y, z, max, window, now)
    return x - now + (y > 0 and 1 or 0)
  end,
  horizon = bucket_horizon,
}
