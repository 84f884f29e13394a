-- What counters.lua has to know of counters with windows. Before it stands the file of one of them, which
-- has said holds, own, opens, brought, ends_at and keep, and of a limit:
--   start, ends      what is used and open in its window, from `start` on, counts until `ends`
--   current, open    what is used and open of it
--   previous, before the same of the window before, which counts until half of that time
-- Of what was reserved, `counts` says whether it is of these windows; after a change, `used` how much of the
-- limit counts.
local first = 2
local function charge(limit, units, is_open)
  local sum = is_open and 'open' or 'current'
  limit[sum], limit.free = limit[sum] + units, limit.free - units
end
local settle
if operation == 'refund' or operation == 'settle' then
  function settle(limit, time, actual, cost, by_count, at)
    if limit.free == limit.capacity or not counts(limit, time) then
      return nil
    end
    local sum, open = 'current', 'open'
    if time < limit.start then
      sum, open = 'previous', 'before'
    end
    if by_count == 1 and limit[open] < cost then
      return 0
    end
    limit[open], limit[sum] = limit[open] - by_count * cost, limit[sum] + by_count * cost
    local back = math.min(limit[sum], math.max(0, cost - actual))
    limit[sum] = limit[sum] - back
    limit.free = limit.capacity - used(limit, at)
    return math.max(0, actual - cost), true, by_count == 1 or back > 0
  end
end
