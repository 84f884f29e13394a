-- Answers the questions of a call.
--
-- In the place of `-- INSERT name` stands what the algorithm has under that name:
--
--   call       once, before all questions: what is read of all keys at once
--   question   once for each question: what its keys share. It finds the locals of the question
--              below, and leaves them as they are
--   quick      for each key: answers the `left` calls that are left of the question, or the first
--              of them, on `key`, number `i`. It sets `record` and how many calls that has
--              `answered`, or, where a command has failed, the message `failure`; or none of them,
--              before it has written anything: then `full` answers. `break` leaves it
--   full       makes the function that answers everything: of the key, the question and how many
--              calls are left; returns the record and how many it has answered, or a table with
--              `err`. `full` is declared before, so that it is made once
local is_alone = #KEYS == 1 and #ARGV == 2
local records, count, covered, is_put_off = not is_alone and { number }, 1, 0, false
-- INSERT call
for q = 2, #ARGV do
  local question = ARGV[q]
  local operation, algorithm, calls, covers, limits, cost, block, longest, max, window, capacity, divisor =
    parse(QUESTION, question)
  local peeks = operation == 3
  local asks = cost > 0 and (peeks or operation == 1)
  -- INSERT question
  for i = covers > 0 and covered + 1 or covered, covered + covers do
    local key, left, before = KEYS[i], calls, count
    repeat
      local record, answered, failure
      if is_put_off then
        -- Calls are decided in the order in which they came.
        record, answered = pack(RECORD, 64, 0, left, 0, 0, 0, 0), left
      else
        repeat
          -- INSERT quick
        until true
        if not record and not failure then
          if work < most_work then
            full = full or (function()
              -- INSERT full
            end)()
            local done
            done, record, answered = pcall(full, key, question, left)
            if not done then
              failure = type(record) == 'table' and record.err or tostring(record)
            elseif type(record) == 'table' then
              failure = record.err
            end
          else
            is_put_off = true
          end
        end
      end
      if failure then
        if is_alone then
          -- Up to Redis 6.2 an error is a text that begins with the place.
          return { err = string.find(failure, '^%u+ ') and failure or 'ERR ' .. failure }
        end
        -- A key that cannot be decided fails alone, for all who ask.
        while count > before do
          count, records[count] = count - 1, nil
        end
        record, answered = pack('<BBI2', 128, 0, #failure) .. failure, left
      end
      if record then
        if is_alone and count == 1 then
          if answered == left then
            return number .. record
          end
          records = { number }
        end
        count = count + 1
        records[count] = record
        left = left - answered
      end
    until left == 0
  end
  covered = covered + covers
end
return table.concat(records)
