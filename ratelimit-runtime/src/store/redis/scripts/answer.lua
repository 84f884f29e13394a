-- Answers a question on a key by its algorithm: returns the record, or a table with `err`.

-- The questions of a call that are charged together are not put off.
most_work = math.huge

local function answer(key, question)
  local algorithm = math.floor(string.byte(question, 2) / 16)
  local answered = answers[algorithm]
  if not answered then
    return { err = 'ERR the rate limiter knows no algorithm ' .. algorithm }
  end
  return answered({ key }, { number, question })
end
