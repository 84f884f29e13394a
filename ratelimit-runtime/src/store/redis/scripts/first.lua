-- The common question, before anything else is made.

local records, left
if #KEYS == 1 then
  local operation, layout, calls, cost, block, _, limits, max, window, capacity = parse(QUESTION, ARGV[2])
  if operation == 1 and limits == 1 and cost > 0 then
    local answered
    records, answered = quick(KEYS[1], layout % 16, calls, cost, block, max, window, capacity)
    if answered == calls then
      return records
    end
    left = calls - (answered or 0)
  end
end
