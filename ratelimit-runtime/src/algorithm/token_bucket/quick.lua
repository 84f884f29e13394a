-- Stored are the tokens that were missing at the newest charge, and so many micros-ths of one more.

-- SECTION units
x = one * micros + other
if x < EXACT then
  x = x - (now - newest) * per
  x = x < 0 and 0 or x
end
-- SECTION stored
other = x % micros
one = (x - other) / micros
