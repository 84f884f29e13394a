-- x: what is used, y: the end of the window

-- SECTION size
local size = 16 * limits
-- SECTION terms
weight, is_exact = cost, true
-- SECTION state
local ends = EXACT
-- SECTION level
x, y = 0, 0
if state then
  x, y = parse('<dd', state, 16 * limit - 15)
  if not (y - window <= now and x >= 0 and x < EXACT) then
    admitted = nil
    break
  end
end
if y <= now or x == 0 then
  x, y, ends = 0, now + window, 0
end
free, whole = max - x, x > 0 and y - now or 0
spare = free
-- SECTION wait
waits = y - now
-- SECTION charge
lasts = y - now
local part = pack('<dd', x + admitted * cost, y)
head = head and head .. part or part
-- SECTION tail
local tail = ''
ends = now + life
