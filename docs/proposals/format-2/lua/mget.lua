local states
if is_many and #KEYS > 1 then
  states = try('MGET', unpack(KEYS))
else
  states = { try('GET', KEYS[1]) }
end
