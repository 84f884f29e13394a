-- The question, if there is one; `quick` answers it in a straight line if it is the common one.

local key = KEYS[1]
local operation, layout, calls, cost, block, _, limits, max, window, capacity = parse(QUESTION, ARGV[2])
local asks = #KEYS == 1 and operation == 1 and limits == 1 and cost > 0
local record, answered
layout = layout % 16
