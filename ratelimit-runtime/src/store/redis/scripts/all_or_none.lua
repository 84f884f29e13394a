-- Several keys in one step, as stacked rules need it: all of them are charged, or none.
--
-- Each is asked for one call to be acquired or reserved.

local ACQUIRE, RESERVE, PEEK, REFUND, RELEASE = 1, 2, 3, 4, 5

local function operation_of(question)
  return string.byte(question)
end

local function block_of(question)
  return (parse('<d', question, 13))
end

local function is_allowed(record)
  return string.byte(record) % 2 == 1
end

local records = {}
local admitted, last_is_asked = true, false
for i = 1, #KEYS do
  local question = ARGV[i + 1]
  if operation_of(question) ~= ACQUIRE and operation_of(question) ~= RESERVE then
    return { err = 'ERR several keys can only be acquired or reserved together' }
  end
  -- If nobody has refused, the last may be charged at once.
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
  if (i < #KEYS or not last_is_asked) and (admitted or not is_allowed(records[i]) and block_of(ARGV[i + 1]) > 0) then
    records[i] = answer(KEYS[i], ARGV[i + 1])
  end
  if admitted and not is_allowed(records[i]) then
    -- A key stands here twice, and there was room for one of them.
    for j = 1, #KEYS do
      local ticket = select(7, parse(RECORD, records[j]))
      if (j < i or j == #KEYS) and ticket > 0 then
        local operation, layout, _, cost = parse('<BBI2d', ARGV[j + 1])
        local back = operation == RESERVE and RELEASE or REFUND
        answer(KEYS[j], pack('<BBI2ddd', back, layout, 1, cost, 0, ticket) .. string.sub(ARGV[j + 1], 29))
      end
    end
    break
  end
end
return table.concat(records)
