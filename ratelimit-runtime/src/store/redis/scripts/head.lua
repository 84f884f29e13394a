-- The beginning of every script.
--
-- KEYS    distinct ones (of `all_or_none.lua`, one for each question)
-- ARGV    eight bytes that the reply repeats, so that it is never taken for that to another call;
--         with a client's clock followed by its time in microseconds, a double. Then the questions,
--         which cover the keys in order. A question is packed, little-endian, counts and times as
--         doubles:
--           operation  a byte: 1 acquire, 2 reserve, 3 peek, 4 refund, 5 release, 6 commit,
--                      7 block, 8 unblock, 9 commit_actual (release gives a reservation back,
--                      commit makes it a charge, commit_actual one of what the call did cost)
--           algorithm and layout, a byte: 16 times the number of the algorithm, and how a log is to
--                      be kept: 0 as what is stored suggests, 1 always as a sorted set, 2 as a ring
--                      where nothing is stored yet. 0 for what is no log
--           calls      two bytes: how many ask this of each key; more than one only to acquire or
--                      reserve
--           covers     two bytes: how many keys it is about: the next ones. One that covers none is
--                      about the key before it once more
--           limits     a byte: how many
--           cost       of each call
--           block      microseconds, or 0 for none; to acquire or reserve: how long a key is
--                      blocked once its limits refuse it; to block: how long
--           longest    what a block that doubles with each offence grows to, and how long offences
--                      are remembered after it; 0 where it does not grow
--           max, window in microseconds, capacity, and what max and window can be divided by: for
--                      each limit. A calendar period has a capacity of 0, and as window how long
--                      one can be
--           instants   of each calendar period, by the asking process: when the period before it
--                      begins, and when that, this one and the next one end
--           ticket     only to refund, release, commit, commit_actual, block or unblock; of the
--                      last two 0
--           actual     what the call did cost, only to commit_actual; the ticket of the reply is
--                      how much of it is not charged
--
-- Reply   one string: the eight bytes; then for each question and key, in this order, one or more
--         records, each of which answers some of its calls in order:
--           flags      a byte: 1 allowed, or there was something to change; 2 refused by a block
--           limit      a byte: the deciding one, from 0
--           calls      two bytes: how many this answers: all are admitted, or all are refused
--           remaining  after the last of them
--           retry_after, reset_after   in microseconds
--           ticket     of the first; in a log, the next ones follow by one, else all have the same.
--                      Of a refusal by a block, how long that goes on, and of another, if
--                      reservations are open, 1 more than how long it would wait if they were
--                      released; both below 0
--         A record with flags of 64 says that so many calls were not decided, and are to ask again:
--         this call would have kept the server too long. Where one key of several fails, its record
--         has flags of 128 and ends after `calls`, which is the length of the message that follows.
--         A single one fails as a whole. An operation that a script does not know is an error.
--
-- Redis runs the whole script anew for each call, and makes every function and table again. So what
-- most calls ask is answered first, in a straight line, by the `quick.lua` of the algorithm, or
-- given up before anything is written. Its `full.lua` answers everything, in functions that are
-- made when they are needed. `questions.lua` has the loop around both, and says what they are given
-- and give; `script.rs` puts the files of a script together.
--
-- Counts are below 2^52 and times below 2^51, so that the sum of two is exact.

local call, try, pack, parse = redis.call, redis.pcall, struct.pack, struct.unpack

-- What `full` has done so far, in decisions; where questions may wait for another call, at most
-- `most_work`.
local work, most_work = 0, 12

local QUESTION = '<BBI2I2Bddddddd'
local RECORD = '<BBI2dddd'

-- An expiry is `base` and what is left of the life, in whole milliseconds, as the argument of
-- PEXPIREAT and PXAT, or with a client's clock of PEXPIRE and PX.
--
-- Redis removes a key only after its last millisecond has passed, so with the server's own clock
-- nothing ends early. Short lives are drawn out to 10 ms, because a script that takes longer would
-- delete what it has just written; with a client's clock, whose pace may differ, to a second. The
-- scripts themselves know what still counts.
local number, now, time, base, shortest = ARGV[1]
local EXPIRY, EXPIRE = 'PXAT', 'PEXPIREAT'
if #number == 8 then
  time = call('TIME')
  now = time[1] * 1000000 + time[2]
  base, shortest = now, 10000
else
  now = parse('<d', number, 9)
  number = string.sub(number, 1, 8)
  base, shortest = 999, 1000000
  EXPIRY, EXPIRE = 'PX', 'PEXPIRE'
end
