-- The end of the script of one algorithm: answers all questions.

most_work = 12
if #KEYS == 1 then
  local reply = answer(KEYS[1], ARGV[3], left, records)
  return type(reply) == 'table' and reply or ARGV[2] .. reply
end
local replies = {}
for i = 1, #KEYS do
  -- One key that cannot be decided fails alone.
  local done, reply = pcall(answer, KEYS[i], ARGV[i + 2])
  if not done or type(reply) == 'table' then
    local message = type(reply) == 'table' and reply.err or tostring(reply)
    reply = pack('<BBI2', 128, 0, #message) .. message
  end
  replies[i] = reply
end
return ARGV[2] .. table.concat(replies)
