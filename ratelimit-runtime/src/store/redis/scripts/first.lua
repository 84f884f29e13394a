-- Reads a question. Most are to acquire, or to peek: `quick` answers those in a straight line.
local operation, kind, all, cost, block, _, limits, max, window, capacity = parse(QUESTION, question)
local peeks = operation == 3
local asks = alone and (operation == 1 or peeks) and cost > 0
local layout = kind % 16
kind = (kind - layout) / 16
local record, answered
calls = calls or all
