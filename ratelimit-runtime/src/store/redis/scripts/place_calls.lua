-- Calls about places alone.
--
-- KEYS    one for each question; one may stand here several times
-- ARGV    behind the number, lists: how many questions, and of how many groups that follow one
--         another they are asked, in two bytes each; then the questions. Unlike those of groups
--         that are charged together, each is answered by itself
--
-- Reply   for each group a record for each of its questions; or one record alone, with flags of
--         128, if its only question has failed. One that is alone in its call fails as a whole
local replies, at, before = {}, 2, 0
while at <= #ARGV do
  local n, groups = parse('<I2I2', ARGV[at])
  for _ = 1, groups do
    for i = 1, n do
      local record = place(KEYS[before + i], ARGV[at + i])
      if type(record) == 'table' then
        local failure = record.err
        if #KEYS == 1 then
          return record
        elseif n == 1 then
          record = pack('<BBI2', 128, 0, #failure) .. failure
        else
          record = pack(RECORD, 0, 0, 1, 0, 1, 0, 0)
        end
      end
      replies[#replies + 1] = record
    end
    before = before + n
  end
  at = at + n + 1
end
return number .. table.concat(replies)
