end
-- What every script ends with. `decide` returns its answer, and what the key holds now (false:
-- nothing; nil: not known, or as it was).
--
-- An answer: a number, whose meaning is the algorithm's: all are admitted at `now`. Or two: what
-- remains, and the time until the first limit is whole. Else a record: how many callers are
-- admitted, which limit decided, what remains, the time until the next caller would be admitted,
-- the time until that limit is whole, the first ticket, and the block's end (0: none).
--
-- A lone reply: the call's number, its time, and the answer. Of a call: a table of number, time,
-- and an answer for each pair of a question and a key. A key that fails, fails alone.
if not ARGV[2] then
  local answer = decide(KEYS[1], 1, now, now_text, expiry, base, PEXPIREAT, PXAT,
    ARGV[1], operation, cost, count, shortest, longest, max, window, rest)
  if type(answer) == 'number' then
    return struct.pack('<I4dd', number, now, answer)
  end
  return struct.pack('<I4d', number, now) .. answer
end
local states = READS and redis.call('MGET', unpack(KEYS)) or {}
local reply, last, question = { number, now }, 2, ARGV[1]
for i = 2, #ARGV, 2 do
  local asks = ARGV[i]
  for from = 1, #asks, 3 do
    local index, callers = struct.unpack('<BH', asks, from)
    local ok, answer, state = pcall(decide, KEYS[index], callers, now, now_text, expiry, base, PEXPIREAT, PXAT,
      question, operation, cost, count, shortest, longest, max, window, rest, states[index])
    if state ~= nil then
      states[index] = state
    end
    if not ok then
      -- An error of Redis is a table, up to 6.2 a text that begins with its place in the script.
      answer = type(answer) == 'table' and answer.err or answer
      answer = redis.error_reply(string.find(answer, '^%u+ ') and answer or 'ERR ' .. answer)
      states[index] = nil
    end
    last = last + 1
    reply[last] = answer
  end
  question = ARGV[i + 1]
  if question then
    operation, cost, count, shortest, longest, max, window, rest = struct.unpack('<Bc0dBdddd', question)
    expiry = string.format('%d', (now - base + WINDOWS * window) / 1000 + 1)
  end
end
return reply
