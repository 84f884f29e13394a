-- What buckets share. They count in parts of a token or microsecond, in units: there are `per` in a
-- microsecond of draining, and `micros` in a token. x: how many units are in the bucket.
--
-- An algorithm inserts:
--
--   units     x, of the stored `x`, `y` and `newest`
--   stored    `first` and `second`, which are stored for x

-- SECTION size
local head_size, size = 8 + 16 * limits, 24 + 24 * limits
local per, micros, most, span
-- SECTION terms
per, micros = max / divisor, window / divisor
most, weight = capacity * micros, cost * micros
is_exact = most + most + per + micros < EXACT
-- How long it takes from full to empty, or a window if that is less.
span = (most + -most % per) / per
span = span < window and span or window
-- SECTION state
local newest, of, ends, first, reach = now, max, 0, now, 0
local one, other = 0, 0
if state then
  newest, one, other, of, ends, first = parse('<dddddd', state)
  if not (newest <= now) then
    break
  end
  if levels then
    ends, first = parse('<dd', state, size - 15)
  end
  -- Where something was given back, all is written, for the tail to look at `first`.
  ends = first > 0 and ends or 0
end
-- SECTION level
x = 0
if state then
  if levels then
    one, other = parse('<dd', state, 16 * limit - 7)
    of = parse('<d', state, head_size + 8 * limit - 7)
  end
  -- INSERT units
  if of ~= max or not (x >= 0 and x < EXACT) then
    admitted = nil
    break
  end
end
free, spare, whole = most - x, capacity - (x + -x % micros) / micros, (x + -x % per) / per
-- SECTION wait
local over = x + weight - most
waits = (over + -over % per) / per
-- SECTION charge
x = x + admitted * weight
lasts = (x + -x % per) / per
reach = span > reach and span or reach
-- INSERT stored
head = head and head .. pack('<dd', one, other) or pack('<ddd', now, one, other)
-- SECTION tail
local is_empty = x == admitted * weight
if levels then
  is_empty = true
  for limit = 1, limits do
    is_empty = is_empty and levels[3 * limit - 2] == 0
  end
end
first = is_empty and now or first
ends = now + life
if state and time then
  -- A key in use is asked again: so late that its expiry need not be written each time.
  ends = now + 2 * (reach > life and reach or life)
end
local tail = pack('<ddd', max, time and ends or 0, first)
for limit = limits - 1, 1, -1 do
  tail = pack('<d', parse('<d', question, 32 * limit)) .. tail
end
