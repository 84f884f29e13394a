-- Answers the calls of a question that are left, after `records`: by `quick` if that can, else by what `full` makes.

local made = {}

local function answer(key, question, calls, records)
  repeat
    local record, answered, all = quick(true, key, question, calls)
    calls = calls or all
    if not record then
      local kind = math.floor(string.byte(question, 2) / 16)
      made[kind] = made[kind] or full(kind)
      if not made[kind] then
        return { err = 'ERR the rate limiter knows no algorithm ' .. kind }
      end
      record, answered = made[kind](key, question, calls)
      if type(record) == 'table' then
        return record
      end
    end
    calls = calls - answered
    records = records and records .. record or record
  until calls == 0
  return records
end
