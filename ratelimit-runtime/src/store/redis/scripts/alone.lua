-- The question, if there is only one.
local alone, key, question, calls = #KEYS == 1, KEYS[1], ARGV[2], nil

