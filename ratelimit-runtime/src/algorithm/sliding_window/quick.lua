-- What both layouts of a log have to know of a question: the longest window and the first limit
-- that has it, the largest `max`, and of several limits the `max` and window of each.

-- SECTION question
local ZSET, RING = 1, 2
local layout = algorithm % 16
local horizon, widest, most, terms = window, 1, max, nil
if limits > 1 then
  terms = { max, window }
  for n = 2, limits do
    local its_max, its_window = parse('<dd', question, 32 * n)
    terms[2 * n - 1], terms[2 * n] = its_max, its_window
    most = its_max > most and its_max or most
    if its_window > horizon then
      horizon, widest = its_window, n
    end
  end
end
local cut = now - horizon
-- The records of calls that are admitted now and by themselves, by what remains: of several keys
-- many are alike, in either layout.
local admissions = not is_alone and {}
