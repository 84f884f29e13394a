-- What every script begins with; the file behind it is the body of `decide`. The line before it
-- says READS, whether the keys are strings, whose values are read all at once; and WINDOWS, how
-- many windows the first charge of a key lives.
--
-- KEYS     each once
-- ARGV[1]  the call's number; the caller's clock, in microseconds, or 0 for the server's; and the
--          first question
-- ARGV[2]  its callers, three bytes for each key: the key's index, and how many. Further questions
--          follow, each with its callers. A key may stand in several: they are decided in order.
--          Without ARGV[2], one caller asks one question of one key
--
-- A question: operation, cost, how many limits, the block's first and longest duration (0: it does
-- not grow), max and window of the first limit; what follows begins at `rest`: what else the
-- algorithm knows of that limit, the further limits, and what the operation needs:
--   refund   ticket
--   settle   ticket, actual cost, 1 if reserved by `count` (0: an estimate), 1 if sent
--            again
--   block    duration
--
-- Expiries are absolute by the server's clock, relative by the caller's, and a second later, as
-- that may be coarse or late: `base` is 0, or a second and half a microsecond before `now`.
-- `shared`: what is made once for all keys of a question; nil for a lone caller, and in a stack. The
-- text of `expiry`, the end of a first charge, in milliseconds. Where keys are no strings, those of
-- `now`, and of `live`, the first microsecond that counts in the first limit's window; else the
-- double at `rest`, if there is one.
-- `state`: the key's value where it was read; false: none, or of another type.
--
-- `decide` has no upvalues: Redis builds every closure at each call, and each upvalue of it costs
-- 500 instructions.
local number, now, operation, cost, count, shortest, longest, max, window, rest =
  struct.unpack('<I4dBc0dBdddd', ARGV[1])
local base, call = now - 1000000.5, redis.call
if now == 0 then
  local time = call('TIME')
  now, base = time[1] * 1000000 + time[2], 0
end
local function decide(key, callers, state, call, now, base, shared,
  question, operation, cost, count, shortest, longest, max, window, rest)
