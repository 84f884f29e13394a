-- x: what is used, y: what was used in the window before, z: the start of the window
local function sunk_to(room, previous, window)
  if previous <= room then
    return 0
  end
  return window - (mul_div(room, window, previous))
end

local sliding_counter = counters {
  each = 3,
  at = function(x, y, z, max, window, now)
    local passed = math.floor((now - z) / window)
    if passed <= 0 then
      return x, y, z
    elseif passed == 1 and x > 0 then
      return 0, x, z + window
    end
    return 0, 0, now
  end,
  status = function(x, y, z, max, window, capacity, cost, now)
    local elapsed = now - z
    local whole, rest = mul_div(y, window - elapsed, window)
    local used = whole + (rest > 0 and 1 or 0) + x
    local wait = 0
    if used + cost > max then
      if x + cost <= max then
        wait = sunk_to(max - x - cost, y, window) - elapsed
      else
        wait = window - elapsed + sunk_to(math.max(max - cost, 0), x, window)
      end
    end
    local reset = 0
    if x > 0 then
      reset = 2 * window - elapsed
    elseif y > 0 then
      reset = window - elapsed
    end
    return wait, math.max(max - used, 0), reset
  end,
  charge = function(x, y, z, max, window, cost)
    return x + cost, y, z
  end,
  refund = function(x, y, z, max, window, cost, ticket, now)
    local done = false
    if ticket >= z then
      x, done = math.max(x - cost, 0), x > 0
    elseif ticket + window >= z then
      y, done = math.max(y - cost, 0), y > 0
    end
    return x, y, z, done
  end,
  ends = function(x, y, z, max, window)
    return x > 0 and z + 2 * window or y > 0 and z + window or 0
  end,
  begin = function(x, y, z, window)
    return z
  end,
  horizon = function(max, window, capacity)
    return 2 * window
  end,
}

return answering(sliding_counter)
