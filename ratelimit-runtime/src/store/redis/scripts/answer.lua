-- Answers the calls of a question that are left, after `records`: by `quick` if that can, else by what `full` makes.

local made = {}

local function answer(quick, full, key, question, calls, records)
  local operation, layout, all, cost, block, _, limits, max, window, capacity = parse(QUESTION, question)
  calls = calls or all
  while calls > 0 do
    local record, answered
    if operation == 1 and limits == 1 and cost > 0 then
      record, answered = quick(key, layout % 16, calls, cost, block, max, window, capacity)
    end
    if not record then
      made[full] = made[full] or full()
      record, answered = made[full](key, question, calls)
      if type(record) == 'table' then
        return record
      end
    end
    calls = calls - answered
    records = (records or '') .. record
  end
  return records
end
