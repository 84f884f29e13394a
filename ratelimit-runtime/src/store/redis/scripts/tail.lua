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
