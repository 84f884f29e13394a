-- What the script of stacks begins with: several questions on keys of one server, which are charged
-- all or none. Behind it stands the file of each algorithm as `algorithms[n] = function(...)`, with
-- the parameters of `decide` in head.lua.
--
-- KEYS     one of each question; a key may stand here twice
-- ARGV[1]  the call's number, and the caller's clock, as in head.lua
-- ARGV[2]  and further: a byte, the number of the algorithm, and the question
local number, now = struct.unpack('<I4d', ARGV[1])
local base, call = now - 1000000.5, redis.call
if now == 0 then
  local time = call('TIME')
  now, base = time[1] * 1000000 + time[2], 0
end
local algorithms = {}
