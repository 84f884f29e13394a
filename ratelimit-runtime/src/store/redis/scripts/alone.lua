-- The question, if there is only one.
local alone, key, question, calls = #KEYS == 1, KEYS[1], ARGV[3], nil

