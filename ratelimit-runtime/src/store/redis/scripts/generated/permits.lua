-- Assembled of other files, which are those to edit, by assembly.rs.
local READS, WINDOWS = false, 1
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
-- Permits of calls in flight, in the place of an algorithm. The key is a sorted set with a member
-- for each permit, whose score is when its lease ends, in microseconds:
--   <16 hexadecimal digits of the process>.<number of the permit>.<lease in milliseconds>
--
-- Of a question, `max` is how many calls may be in flight, and `window` the lease of the permit
-- that asks. At `rest` stand two bytes, how many permits follow, and each with its length, a byte.
-- The first is the permit that is asked about; the others are released before anything else,
-- whatever comes of it.
--
-- acquire_permit   acquires the permit, if one is free
-- peek             says whether one is
-- release_permit   1 if it was held
-- renew            prolongs the lease; one that has ended is begun anew, if a permit is free
--
-- Of the answer, `remaining` is how many calls are in flight (0 of a release); the ticket is 1 of a
-- permit that is held, 2 if it was acquired anew by renewing.
local fmt = string.format
local permits, at = struct.unpack('<H', question, rest)
local permit, releases
permit, at = struct.unpack('Bc0', question, at)
if permits > 1 then
  releases = {}
  for i = 1, permits - 1 do
    releases[i], at = struct.unpack('Bc0', question, at)
  end
  call('ZREM', key, unpack(releases))
end
if operation == 'release_permit' then
  return struct.pack('<HBddddd', call('ZREM', key, permit), 0, 0, 0, 0, 0, 0)
end
if operation ~= 'acquire_permit' and operation ~= 'renew' and operation ~= 'peek' then
  error('unknown operation ' .. operation)
end

-- What a clock that was set back or another program has left stands last: a lease that ends further
-- off than it lasts is cut, a member that is no permit removed, at most 64 of them a call. Where
-- leases are equal, all before one that is whole are.
local latest, foreign = 0, 0
for _ = 1, 64 do
  local last = call('ZRANGE', key, '-1', '-1', 'WITHSCORES')
  local member, ends = last[1], tonumber(last[2])
  if not member then break end
  local process, lease = string.match(member, '^(%x+)%.%d+%.(%d+)$')
  lease = process and #process == 16 and lease * 1000
  if not lease or lease < 5000000 or lease > 3600000000 then
    call('ZREM', key, member)
    foreign = foreign + 1
  elseif ends > now + lease then
    latest = math.max(latest, now + lease)
    call('ZADD', key, fmt('%d', now + lease), member)
  else
    latest = math.max(latest, ends)
    break
  end
end

-- Permits may stand before them, of no longer leases than there are.
if foreign == 64 then latest = now + 3600000000 end

-- How many are in flight. A call drops at most 64 leases that have ended.
local live = 0
if latest > 0 then
  local lapsed = call('ZCARD', key)
  live = call('ZCOUNT', key, '(' .. fmt('%d', now), '+inf')
  lapsed = lapsed - live
  if lapsed > 0 then
    call('ZREMRANGEBYRANK', key, '0', fmt('%d', math.min(lapsed, 64) - 1))
  end
end

local ticket = operation == 'acquire_permit' and 1 or 0
local is_held = false
if operation == 'renew' then
  is_held = tonumber(call('ZSCORE', key, permit) or 0) > now
  ticket = is_held and 1 or 2
end
if not is_held and live >= max then
  return struct.pack('<HBddddd', 0, 0, live, 0, 0, 0, 0)
end
if operation ~= 'peek' then
  local ends = now + window
  call('ZADD', key, fmt('%d', ends), permit)
  call(base == 0 and 'PEXPIREAT' or 'PEXPIRE', key, fmt('%d', (math.max(latest, ends) - base) / 1000 + 1))
  if not is_held then live = live + 1 end
end
return struct.pack('<HBddddd', 1, 0, live, 0, 0, ticket, 0)
end
-- What every script ends with. `decide` returns its answer, and what the key holds now (false:
-- nothing; nil: not known, or as it was).
--
-- An answer: a number, whose meaning is the algorithm's: all are admitted at `now`. Or two: what
-- remains, and the time until the first limit is whole. Else a record: how many callers are
-- admitted, which limit decided, what remains, the time until the next caller would be admitted,
-- the time until that limit is whole, the first ticket, and the block's end (0: none).
--
-- A lone reply: the call's number, its time, and the answer. Of a call, packed by MessagePack, because
-- a client reads one string much faster than an array: number, time, and an answer for each pair of a
-- question and a key. A key that fails, fails alone: its answer is a table of the error's text.
if not ARGV[2] then
  local answer = decide(KEYS[1], 1, nil, call, now, base, nil,
    ARGV[1], operation, cost, count, shortest, longest, max, window, rest)
  return struct.pack(type(answer) == 'number' and '<I4dd' or '<I4dc0', number, now, answer)
end

-- Decides for the callers at `from` on until a key fails, and adds the answers to `reply`: a
-- `pcall` for each key would cost more.
local function decide_from(from, callers, reply, states, keys, decide, ...)
  local byte, last = string.byte, #reply
  for from = from, #callers, 3 do
    local index, low, high = byte(callers, from, from + 2)
    local answer, state = decide(keys[index], low + 256 * high, states[index], ...)
    if state ~= nil then
      states[index] = state
    end
    last = last + 1
    reply[last] = answer
  end
end
local fmt, reply, question = string.format, { number, now }, ARGV[1]
local states = READS and call('MGET', unpack(KEYS)) or {}
for i = 2, #ARGV, 2 do
  if i > 2 then
    question = ARGV[i - 1]
    operation, cost, count, shortest, longest, max, window, rest = struct.unpack('<Bc0dBdddd', question)
  end
  local shared = { expiry = fmt('%d', (now - base + WINDOWS * window) / 1000 + 1),
    now = not READS and fmt('%d', now), live = not READS and fmt('%d', now - window + 1),
    double = READS and #question >= rest + 7 and struct.unpack('<d', question, rest) }
  local callers, before = ARGV[i], #reply
  while 3 * (#reply - before) < #callers do
    local ok, failure = pcall(decide_from, 3 * (#reply - before) + 1, callers, reply, states, KEYS, decide,
      call, now, base, shared, question, operation, cost, count, shortest, longest, max, window, rest)
    if not ok then
      -- An error of Redis is a table, up to 6.2 a text that begins with its place in the script.
      failure = type(failure) == 'table' and failure.err or failure
      reply[#reply + 1] = { string.find(failure, '^%u+ ') and failure or 'ERR ' .. failure }
      states[string.byte(callers, 3 * (#reply - before) - 2)] = nil
    end
  end
end
return cmsgpack.pack(reply)
