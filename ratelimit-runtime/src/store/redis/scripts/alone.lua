-- The question, if there is only one: of several, none may be answered here.
local may_answer, key, question, calls = #KEYS == 1, KEYS[1], ARGV[3], nil

