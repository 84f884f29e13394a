-- Groups of keys, as stacked rules need them: of each group all keys are charged, or none. Groups
-- are decided one after the other, as if each had come in a call of its own.
--
-- KEYS    those of the first group, then those of the next; one may stand here several times
-- ARGV    behind the number, lists: how many questions, and of how many groups that follow one
--         another they are asked, in two bytes each; then the questions, one for each key of such a
--         group, to acquire or to reserve by one call
--
-- Reply   for each group a record for each of its keys; or one record alone, with flags of 64 if
--         the group is put off, or of 128 if it has failed. Then none of its keys has been charged.
--         A group that is alone in its call fails as a whole

local ACQUIRE, RESERVE, PEEK, REFUND, RELEASE = 1, 2, 3, 4, 5
local ENOUGH = 12

local function is_allowed(record)
  return string.byte(record) % 2 == 1
end

-- Gives back what a key was charged. One that cannot even be given back is left as it is: nothing
-- is known of it.
local function give_back(key, question, record)
  local ticket = select(7, parse(RECORD, record))
  if ticket > 0 then
    local back = string.byte(question) == RESERVE and RELEASE or REFUND
    answer(key, string.char(back) .. string.sub(question, 2) .. pack('<d', ticket))
  end
end

-- Decides on the group whose keys are behind so many others: returns its records, or why it has
-- failed.
local function decide(before, questions, peeks, blocks)
  local n, records, admitted, last_is_asked = #questions, {}, true, false
  for i = 1, n do
    -- If none has refused, the last may be charged at once.
    last_is_asked = admitted and i == n
    local record = answer(KEYS[before + i], last_is_asked and questions[i] or peeks[i])
    if type(record) == 'table' then
      return nil, record.err
    end
    records[i] = record
    admitted = admitted and is_allowed(record)
  end

  for i = 1, n do
    -- Where one refuses, those that do may set their blocks, and no other is touched.
    local failure
    if (i < n or not last_is_asked) and (admitted or not is_allowed(records[i]) and blocks[i] > 0) then
      local record = answer(KEYS[before + i], questions[i])
      if type(record) == 'table' then
        failure = record.err
      else
        records[i] = record
      end
    end
    if admitted and (failure or not is_allowed(records[i])) then
      -- It cannot be charged, or stands here twice and only one of them fitted.
      for j = 1, n do
        if j < i or j == n then
          give_back(KEYS[before + j], questions[j], records[j])
        end
      end
    end
    if failure then
      return nil, failure
    elseif admitted and not is_allowed(records[i]) then
      break
    end
  end
  return table.concat(records)
end

local replies, at, before = {}, 2, 0
while at <= #ARGV do
  local n, groups = parse('<I2I2', ARGV[at])
  local questions, peeks, blocks = {}, {}, {}
  for i = 1, n do
    local question = ARGV[at + i]
    local operation = string.byte(question)
    if operation ~= ACQUIRE and operation ~= RESERVE then
      return { err = 'ERR several keys can only be acquired or reserved together' }
    end
    questions[i] = question
    peeks[i] = string.char(PEEK) .. string.sub(question, 2)
    blocks[i] = parse('<d', question, 16)
  end
  for _ = 1, groups do
    local reply, failure
    if work >= ENOUGH then
      reply = pack(RECORD, 64, 0, n, 0, 0, 0, 0)
    else
      reply, failure = decide(before, questions, peeks, blocks)
    end
    if failure and n == #KEYS then
      return { err = failure }
    end
    replies[#replies + 1] = reply or pack('<BBI2', 128, 0, #failure) .. failure
    before = before + n
  end
  at = at + n + 1
end
return number .. table.concat(replies)
