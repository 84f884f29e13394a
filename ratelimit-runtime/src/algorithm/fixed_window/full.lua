-- x: the start of the window, y: what is used
local fixed_window = counters {
  at = function(x, y, z, max, window, now)
    if y == 0 or now >= x + window then
      return now, 0, 0
    end
    return x, y, z
  end,
  status = function(x, y, z, max, window, capacity, cost, now)
    local rest = x + window - now
    return y + cost > max and rest or 0, math.max(max - y, 0), y == 0 and 0 or rest
  end,
  charge = function(x, y, z, max, window, cost)
    return x, y + cost, z
  end,
  refund = function(x, y, z, max, window, cost, ticket, now)
    if ticket < x or y == 0 then
      return x, y, z, false
    end
    return x, math.max(y - cost, 0), z, true
  end,
  life = function(x, y, z, max, window, now)
    return y == 0 and 0 or x + window - now
  end,
  horizon = function(max, window, capacity)
    return window
  end,
}

return answering(fixed_window)
