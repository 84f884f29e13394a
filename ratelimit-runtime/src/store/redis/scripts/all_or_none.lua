-- Several keys in one step, as stacked rules need it: all of them are charged, or none.
--
-- Each is asked for one call to be acquired or reserved.

local ACQUIRE, RESERVE, PEEK, REFUND, RELEASE = 1, 2, 3, 4, 5

local function question_on(i)
  return ARGV[i + 1]
end

local function operation_of(question)
  return string.byte(question)
end

local function block_of(question)
  return (parse('<d', question, 16))
end

local function is_allowed(record)
  return string.byte(record) % 2 == 1
end

-- Gives back what a key was charged. One that cannot even be given back is left as it is: nothing
-- is known of it.
local function give_back(i, record)
  local ticket = select(7, parse(RECORD, record))
  if ticket > 0 then
    local question = question_on(i)
    local back = operation_of(question) == RESERVE and RELEASE or REFUND
    answer(KEYS[i], string.char(back) .. string.sub(question, 2) .. pack('<d', ticket))
  end
end

local records = {}
local admitted, last_is_asked = true, false
for i = 1, #KEYS do
  local question = question_on(i)
  if operation_of(question) ~= ACQUIRE and operation_of(question) ~= RESERVE then
    return { err = 'ERR several keys can only be acquired or reserved together' }
  end
  -- If none has refused, the last may be charged at once.
  last_is_asked = admitted and i == #KEYS
  if not last_is_asked then
    question = string.char(PEEK) .. string.sub(question, 2)
  end
  local record = answer(KEYS[i], question)
  if type(record) == 'table' then
    return record
  end
  records[i] = record
  admitted = admitted and is_allowed(record)
end

for i = 1, #KEYS do
  -- Where one refuses, those that do may set their blocks, and no other is touched.
  local failed
  if (i < #KEYS or not last_is_asked) and (admitted or not is_allowed(records[i]) and block_of(question_on(i)) > 0) then
    local record = answer(KEYS[i], question_on(i))
    if type(record) == 'table' then
      failed = record
    else
      records[i] = record
    end
  end
  if admitted and (failed or not is_allowed(records[i])) then
    -- It cannot be charged, or stands here twice and only one of them fitted.
    for j = 1, #KEYS do
      if j < i or j == #KEYS then
        give_back(j, records[j])
      end
    end
  end
  if failed then
    return failed
  elseif admitted and not is_allowed(records[i]) then
    break
  end
end
return number .. table.concat(records)
