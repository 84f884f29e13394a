-- A limit with a capacity of 0 is a calendar period: behind the limits stand when the period before
-- this one begins, and when these two and the next one end. x: what is used, y: the end of the
-- window, z: when it was begun.

-- SECTION size
local size = 24 * limits
-- SECTION terms
weight, is_exact = cost, true
-- SECTION state
local ends, instants = EXACT, 32 * limits
-- SECTION level
x, y, z = 0, 0, 0
if state then
  x, y, z = parse('<ddd', state, 24 * limit - 23)
end
local earliest, latest = y - window, y
if capacity == 0 then
  instants = instants + 32
  local start, past, this, next = parse('<dddd', question, instants)
  if not (start <= now and now < next and y <= next) then
    admitted = nil
    break
  end
  earliest, latest = 0, now < past and past or now < this and this or next
else
  latest = now + window
end
if not (earliest <= now and x >= 0 and x < EXACT and z >= 0 and z < EXACT) then
  admitted = nil
  break
end
if y <= now or x == 0 and capacity > 0 then
  x, y, z, ends = 0, latest, now, 0
elseif x == 0 then
  -- Of one of several limits; if of all, the key is new. `full` looks at all.
  admitted = nil
  break
end
free, whole = max - x, x > 0 and y - now or 0
spare = free
-- SECTION wait
waits = y - now
-- SECTION charge
lasts = y - now
local part = pack('<ddd', x + admitted * cost, y, z)
head = head and head .. part or part
-- SECTION tail
local tail = ''
ends = now + life
