-- x: what is used, y: the end of the window
local fixed_window = {
  each = 2,
  at = function(x, y, z, max, window, now)
    if x == 0 or now >= y then
      return 0, now + window, z
    end
    return x, y, z
  end,
  status = function(x, y, z, max, window, capacity, cost, now)
    local rest = y - now
    return x + cost > max and rest or 0, math.max(max - x, 0), x == 0 and 0 or rest
  end,
  charge = function(x, y, z, max, window, cost)
    return x + cost, y, z
  end,
  refund = function(x, y, z, max, window, cost, ticket, now)
    if ticket < y - window or x == 0 then
      return x, y, z, false
    end
    return math.max(x - cost, 0), y, z, true
  end,
  ends = function(x, y, z, max, window)
    return x > 0 and y or 0
  end,
  begin = function(x, y, z, window)
    return x > 0 and y - window or 0
  end,
  horizon = function(max, window, capacity)
    return window
  end,
}
