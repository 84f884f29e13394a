-- What the script of stacks ends with. The reply, packed as in tail.lua: the call's number, its time,
-- 1 if all questions are charged and 0 if none is, and an answer to each: of the charge; where none is charged of a
-- look, of a refusal that set a block, or an error.
--
-- `states`: what keys hold, as far as it is known; false: nothing. `ahead`: what is asked of a
-- question's key before it; `sums`: what all that were looked at ask of a key.
local last, answers, states, ahead, sums = #KEYS, {}, {}, {}, {}

-- Asks a question, or something else of what it is about, and keeps the answer. Returns whether it
-- admits, nil of an error; its operation; the ticket; and whether a refusal sets a block.
local function ask(i, name, extra)
  local key, question = KEYS[i], ARGV[i + 1]
  local algorithm, operation, cost, count, shortest, longest, max, window, rest =
    struct.unpack('<BBc0dBdddd', question)
  if name == 'peek' or name == 'offend' then
    -- A key that stands here twice has to have room for both.
    cost = cost + (ahead[i] or 0)
    sums[key] = cost
  end
  local ok, answer, state = pcall(algorithms[algorithm], key, 1, states[key], redis.call, now, base, nil,
    extra and question .. extra or question, name or operation, cost, count, shortest, longest, max, window, rest)
  if not ok then
    -- An error of Redis is a table, up to 6.2 a text that begins with its place in the script.
    answer = type(answer) == 'table' and answer.err or answer
    states[key], answers[i] = nil, { string.find(answer, '^%u+ ') and answer or 'ERR ' .. answer }
    return nil, operation
  end
  states[key], answers[i] = state, answer
  if type(answer) == 'number' or #answer == 16 then
    return true, operation, now
  end
  local ticket = struct.unpack('<d', answer, 28)
  return struct.unpack('<H', answer) > 0, operation, ticket, shortest > 0
end

-- The last question is charged where all others admit, and looks for itself, unless its key stands
-- here twice.
local refusing, offender, looked = {}, nil, 0
for i = 1, last do
  ahead[i] = sums[KEYS[i]]
  if i < last or ahead[i] then
    local admits, _, _, blocks = ask(i, 'peek')
    looked = i
    if not admits then
      refusing[KEYS[i]], offender = true, blocks and i
    end
  end
end
local refused = next(refusing)
local all = not refused
if all then
  local operations, tickets, from = {}, {}, looked == last and 1 or 0
  for turn = from, looked do
    local i = turn == 0 and last or turn
    all, operations[i], tickets[i] = ask(i)
    if not all then
      -- It is of another type, or went otherwise than it looked: the charges before are taken back.
      for before = turn - 1, from, -1 do
        local i = before == 0 and last or before
        if operations[i] == 'acquire_permit' then
          ask(i, 'release_permit')
        elseif operations[i] == 'acquire' then
          ask(i, 'refund', struct.pack('<d', tickets[i]))
        else
          ask(i, 'settle', struct.pack('<dddd', tickets[i], 0, operations[i] == 'reserve' and 1 or 0, 0))
        end
        ask(i, 'peek')
      end
      break
    end
  end
else
  local admits = looked == last or ask(last, 'peek')
  -- But for one key alone the call would have run: that is blocked. Of several that refuse none is,
  -- so that nobody blocks another's key by calls that his own limit refuses.
  if admits and offender and not next(refusing, refused) then
    ask(offender, 'offend')
  end
end
local reply = { number, now, all and 1 or 0 }
for i = 1, last do
  reply[i + 3] = answers[i]
end
return cmsgpack.pack(reply)
