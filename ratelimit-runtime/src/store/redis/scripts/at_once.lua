-- What `quick` has answered; what is left is for what follows.

if answered == calls then
  return ARGV[2] .. record
end
local records, left = record, calls - (answered or 0)
