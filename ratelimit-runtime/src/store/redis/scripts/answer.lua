-- Answers the calls of a question that are left, after `records`: by `quick` if that can, else by
-- what `full` makes.

local made = {}
local is_enough = false

local function later(calls, records)
  is_enough = true
  return (records or '') .. pack(RECORD, 64, 0, calls, 0, 0, 0, 0)
end

local function answer(key, question, calls, records)
  if is_enough then
    -- Calls are decided in the order in which they came.
    local _, _, all = parse('<BBI2', question)
    return later(all)
  end
  repeat
    local record, answered, all = quick(true, key, question, calls)
    calls = calls or all
    if not record then
      if work >= most_work then
        return later(calls, records)
      end
      local algorithm = math.floor(string.byte(question, 2) / 16)
      made[algorithm] = made[algorithm] or full(algorithm)
      if not made[algorithm] then
        return { err = 'ERR the rate limiter knows no algorithm ' .. algorithm }
      end
      record, answered = made[algorithm](key, question, calls)
      if type(record) == 'table' then
        return record
      end
    end
    calls = calls - answered
    records = records and records .. record or record
  until calls == 0
  return records
end
