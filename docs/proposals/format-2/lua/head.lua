-- KEYS: distinct. ARGV[1]: eight bytes that the reply repeats, then, with a client's clock, its time (double).
-- ARGV[2…]: questions. Each covers the next `covers` keys; one that covers none asks about the key before it once more.
-- QUESTION: operation, algorithm * 16 + layout: bytes; calls, covers: 2 bytes; limits: byte;
--           cost, block, longest block: doubles; for each limit max, window, capacity, divisor: doubles
-- Reply: the eight bytes; the time; for each record 2 bytes: how many calls are admitted, and the record is the head that was written,
--        or, with 16384 added, the whole state of a key that is new;
--        or 32768 and the length of the record: refused (or a look), and the record is what is stored;
--        65534: handed over to `full`, nothing written; 65535: failed, the record is 2 bytes of length and a message.
local call, try, pack, parse = redis.call, redis.pcall, struct.pack, struct.unpack
local EXACT, WHOLE, STORED, FULL, FAILED = 9007199254740992, 16384, 32768, 65534, 65535
local WRONGTYPE = 'WRONGTYPE the key holds something else'
local QUESTION = '<BBI2I2Bddddddd'
-- The arguments of SET: an expiry is `base` and what is left, at least 10 ms (a second by a client's clock), in milliseconds.
local number, stamp = ARGV[1], nil
local now, is_server, base, least, EXPIRY
if #number == 8 then
  stamp = call('TIME')
  now, is_server, base, EXPIRY = stamp[1] * 1000000 + stamp[2], true, 0, 'PXAT'
  least = now + 10000
else
  now, base, EXPIRY = parse('<d', number, 9), nil, 'PX'
  base, least, number = now - 999, now + 1000000, string.sub(number, 1, 8)
end
local is_many = #KEYS + #ARGV > 3
local counts, records, count, record, answered = nil, nil, nil, nil, 0
if is_many then
  counts, records = {}, {}
end
