-- x: the start of the current window, y: what is used in it, z: what was used in the one before
local function sunk_to(room, previous, window)
  if previous <= room then
    return 0
  end
  return window - (mul_div(room, window, previous))
end

local sliding_counter = counters {
  at = function(x, y, z, max, window, now)
    local passed = math.floor((now - x) / window)
    if passed <= 0 then
      return x, y, z
    elseif passed == 1 then
      return x + window, 0, y
    end
    return now, 0, 0
  end,
  status = function(x, y, z, max, window, capacity, cost, now)
    local elapsed = now - x
    local whole, rest = mul_div(z, window - elapsed, window)
    local used = whole + (rest > 0 and 1 or 0) + y
    local wait = 0
    if used + cost > max then
      if y + cost <= max then
        wait = sunk_to(max - y - cost, z, window) - elapsed
      else
        wait = window - elapsed + sunk_to(math.max(max - cost, 0), y, window)
      end
    end
    local reset = 0
    if y > 0 then
      reset = 2 * window - elapsed
    elseif z > 0 then
      reset = window - elapsed
    end
    return wait, math.max(max - used, 0), reset
  end,
  charge = function(x, y, z, max, window, cost)
    return x, y + cost, z
  end,
  refund = function(x, y, z, max, window, cost, ticket, now)
    if ticket >= x then
      return x, math.max(y - cost, 0), z, y > 0
    elseif ticket + window >= x then
      return x, y, math.max(z - cost, 0), z > 0
    end
    return x, y, z, false
  end,
  life = function(x, y, z, max, window, now)
    if y > 0 then
      return 2 * window - (now - x)
    end
    return z > 0 and window - (now - x) or 0
  end,
  horizon = function(max, window, capacity)
    return 2 * window
  end,
}

return answering(sliding_counter)
