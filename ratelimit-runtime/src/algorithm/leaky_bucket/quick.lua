-- Stored are when the bucket runs empty, and so many per-ths of a microsecond more.

-- SECTION units
if one < now then
  x = 0
else
  x = (one - now) * per + other
end
-- SECTION stored
other = x % per
one = now + (x - other) / per
