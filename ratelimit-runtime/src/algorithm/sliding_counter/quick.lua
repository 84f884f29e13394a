-- x: what is used, y: what was used in the window before, z: the start of the window

-- SECTION size
local size = 24 * limits
-- SECTION terms
weight, is_exact = cost, true
-- SECTION state
local ends = EXACT
-- SECTION level
x, y, z = 0, 0, now
if state then
  x, y, z = parse('<ddd', state, 24 * limit - 23)
end
local elapsed = now - z
if not (elapsed >= 0 and x >= 0 and y >= 0 and x * window < EXACT and y * window < EXACT) then
  admitted = nil
  break
end
if elapsed >= window then
  if elapsed < 2 * window and x > 0 then
    x, y, z, elapsed = 0, x, z + window, elapsed - window
  else
    x, y, z, elapsed = 0, 0, now, 0
  end
  ends = 0
end
local weighed = y * (window - elapsed)
spare = max - x - (weighed + -weighed % window) / window
free = spare
whole = x > 0 and 2 * window - elapsed or y > 0 and window - elapsed or 0
-- SECTION wait
-- When so much of the last window has gone by that what is used leaves room.
local passed, share, last = 0, max - cost - x, y
if share < 0 then
  passed, share, last = window, max - cost, x
end
if last > share then
  share = share * window
  passed = passed + window - (share - share % last) / last
end
waits = passed - elapsed
-- SECTION charge
lasts = z + 2 * window - now
local part = pack('<ddd', x + admitted * cost, y, z)
head = head and head .. part or part
-- SECTION tail
local tail = ''
ends = now + life
