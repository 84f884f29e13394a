-- Reads a question. Most are to acquire, or to peek: `quick.lua` answers those in a straight line.
local operation, algorithm, all, cost, block, _, limits, max, window, capacity = parse(QUESTION, question)
local peeks = operation == 3
local asks = may_answer and (operation == 1 or peeks) and cost > 0
local layout = algorithm % 16
algorithm = (algorithm - layout) / 16
local record, answered
calls = calls or all
