-- What `quick` has answered; what is left is for what follows.

if answered == calls then
  return record
end
local records, left = record, calls - (answered or 0)
