-- What most calls ask of counters: to acquire or to peek, with nothing reserved, a clock that does
-- not stand before what is stored, and numbers that can be reckoned with exactly. `full.lua` has
-- the rest, and the format.
--
-- An algorithm inserts, for each limit:
--
--   terms     what follows from `max`, `window`, `capacity` and `divisor`; `weight` is the cost in
--             the units that it counts in, `is_exact` whether it can be reckoned with
--   level     from the state the limit's x, y and z at `now`, and of them `free`, in the same
--             units, and `spare`, which is that in calls of cost 1, rounded down; `whole`, how long
--             until nothing counts. `admitted = nil` and `break` leave it to `full`
--   wait      `waits`, how long a call has to wait, if not even one is free
--   charge    adds the limit's part to `head`, with `admitted` calls more; `lasts` is how long that
--             counts
--
-- and for the key:
--
--   size      how long `head` is, and the value without extras
--   state     the parts of the state that all limits share; `ends` is until when the expiry lasts
--   tail      `ends`, until when a new expiry is to last, and what stands behind `head`

-- SECTION call
-- What was read of a key and may still hold. (Where MGET is forbidden, that is nothing.)
local states = #KEYS > 1 and try('MGET', unpack(KEYS))
local EXACT, WRONGTYPE = 9007199254740992, 'WRONGTYPE the key does not hold counters of these limits'
local written, expiry
-- SECTION question
local weight, is_exact
-- INSERT size
-- INSERT terms
-- SECTION quick
if not asks then
  break
end
local state
if states then
  state, states[i] = states[i], nil
end
if state == nil or peeks then
  state = try('GET', key)
end
local blocked_for, blocked_until, strikes = 0, 0, 0
if state and #state ~= size then
  if #state ~= size + 24 then
    break
  end
  local given
  blocked_until, given, strikes = parse('<ddd', state, size + 1)
  if blocked_until > now then
    blocked_for = blocked_until - now
    if not (blocked_for <= given and given < EXACT) then
      break
    end
  end
end
local levels = limits > 1 and {}
-- INSERT state

-- How many calls each limit has room for; else how long it waits. `verdict` in `common.lua` says
-- which one decides.
local admitted, decides, wait, room, reset = left, 0, 0, EXACT, 0
local x, y, z
for limit = 1, limits do
  if levels then
    max, window, capacity, divisor = parse('<dddd', question, 32 * limit)
    -- INSERT terms
  end
  if not is_exact then
    admitted = nil
    break
  end
  local free, spare, whole
  -- INSERT level
  local fits, waits = 0, 0
  if free >= weight then
    fits = (free - free % weight) / weight
  else
    -- INSERT wait
    spare = spare > 0 and spare or 0
  end
  if waits > wait or waits == wait and spare < room then
    decides, wait, room, reset = limit - 1, waits, spare, whole
  end
  if fits < admitted then
    admitted = fits
  end
  if levels then
    levels[3 * limit - 2], levels[3 * limit - 1], levels[3 * limit] = x, y, z
  end
end
if not admitted then
  break
end
if blocked_for > 0 then
  local retry, again = wait > blocked_for and wait or blocked_for, reset > blocked_for and reset or blocked_for
  record, answered = pack(RECORD, 2, decides, left, room, retry, again, -blocked_for), left
  break
elseif admitted == 0 or peeks then
  if peeks or block == 0 then
    record, answered = pack(RECORD, wait == 0 and 1 or 0, decides, left, room, wait, reset, 0), left
  end
  break
end

local head, life = nil, 0
for limit = 1, limits do
  local lasts
  if levels then
    max, window, capacity, divisor = parse('<dddd', question, 32 * limit)
    x, y, z = levels[3 * limit - 2], levels[3 * limit - 1], levels[3 * limit]
    -- INSERT terms
  end
  -- INSERT charge
  if lasts > life then
    life = lasts
  end
  if limit == decides + 1 then
    reset = lasts
  end
end
local reply
if state and #state == size and time and now + life <= ends then
  -- The expiry is late enough.
  reply = try('SETRANGE', key, '0', head)
  if reply ~= size then
    failure = reply.err
    break
  end
else
  -- INSERT tail
  if strikes > 0 and now < blocked_until + longest then
    -- A block that is over is remembered, to be longer the next time.
    tail = tail .. string.sub(state, size + 1)
    ends = ends > blocked_until + longest and ends or blocked_until + longest
  end
  if ends ~= written then
    -- The same text for all keys of which it is true.
    local lasts = ends - now
    written, expiry = ends, string.format('%d', (base + (lasts > shortest and lasts or shortest)) / 1000)
  end
  if state and #state == size then
    -- Both cost less than SET. The second needs no memory.
    reply = try('SETRANGE', key, '0', head .. tail)
    reply = reply == size and try(EXPIRE, key, expiry) or reply
  else
    -- MGET says of another type that there is nothing.
    reply = try('SET', key, head .. tail, EXPIRY, expiry, state and 'XX' or 'NX')
  end
  if not reply or reply ~= 1 and reply.err then
    failure = reply and reply.err or WRONGTYPE
    break
  end
end
record, answered = pack(RECORD, 1, decides, admitted, room - admitted * cost, 0, reset, now), admitted
