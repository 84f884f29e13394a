-- What both layouts of a log have to know of several limits.
local longest, most = window, max
for i = 2, limits do
  local other, its = parse('<dd', question, 32 * i)
  longest, most = its > longest and its or longest, other > most and other or most
end
