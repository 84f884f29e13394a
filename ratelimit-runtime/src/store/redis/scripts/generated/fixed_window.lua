-- Assembled of other files, which are those to edit, by assembly.rs.
local READS, WINDOWS = true, 1
-- What every script begins with; the file behind it is the body of `decide`. The line before it
-- says READS, whether the keys are strings, whose values are read all at once; and WINDOWS, how
-- many windows the first charge of a key lives.
--
-- KEYS     each once
-- ARGV[1]  the call's number; the caller's clock, in microseconds, or 0 for the server's; and the
--          first question
-- ARGV[2]  its callers, three bytes for each key: the key's index, and how many. Further questions
--          follow, each with its callers. A key may stand in several: they are decided in order.
--          Without ARGV[2], one caller asks one question of one key
--
-- A question: operation, cost, how many limits, the block's first and longest duration (0: it does
-- not grow), max and window of the first limit; what follows begins at `rest`: what else the
-- algorithm knows of that limit, the further limits, and what the operation needs:
--   refund   ticket
--   settle   ticket, actual cost, 1 if reserved by `count` (0: an estimate), 1 if sent
--            again
--   block    duration
--
-- Expiries are absolute by the server's clock, relative by the caller's, and a second later, as
-- that may be coarse or late: `base` is 0, or a second and half a microsecond before `now`.
-- `shared`: what is made once for all keys of a question; nil for a lone caller, and in a stack. The
-- text of `expiry`, the end of a first charge, in milliseconds. Where keys are no strings, those of
-- `now`, and of `live`, the first microsecond that counts in the first limit's window; else the
-- double at `rest`, if there is one.
-- `state`: the key's value where it was read; false: none, or of another type.
--
-- `decide` has no upvalues: Redis builds every closure at each call, and each upvalue of it costs
-- 500 instructions.
local number, now, operation, cost, count, shortest, longest, max, window, rest =
  struct.unpack('<I4dBc0dBdddd', ARGV[1])
local base, call = now - 1000000.5, redis.call
if now == 0 then
  local time = call('TIME')
  now, base = time[1] * 1000000 + time[2], 0
end
local function decide(key, callers, state, call, now, base, shared,
  question, operation, cost, count, shortest, longest, max, window, rest)
-- The fixed window: what is used of the window that its first charge began. By the clock it ends
-- `window` later. A calendar period has in the place of its window the longest that one can be,
-- negative, and behind it when this period and the next end by the asking process's clock: a new
-- window ends with the first of them that is ahead. What is stored ends when it says.
--
-- The value, in doubles: the time of the newest write; for each limit when its window was begun,
-- when it ends, and what is used. While anything is reserved by `count`, or there is a block or
-- strikes are remembered: what is open of each limit; the block's end, the strikes, and for how
-- long they are remembered after it.
--
-- Expiry: the last of the ends. A common answer: what remains, where a window begins now by the
-- clock; else what remains, and the time until the window ends.
local pack, units, is_read = struct.pack, callers * cost, false
if state == nil then
  state, is_read = call('GET', key), true
end

-- The common question: a charge under one limit, nothing open, no block, a clock that goes forward.
if count == 1 and (operation == 'acquire' or operation == 'estimate') and cost > 0 then
  local this, following
  if window < 0 then
    this, following = struct.unpack('<dd', question, rest)
  end
  if this and (now < this + 2 * window or now >= following) then
    -- The asking process is off, which is said below.
  elseif not state and units <= max then
    local ends = this and (now < this and this or following) or now + window
    local expiry = not this and shared and shared.expiry or string.format('%d', (ends - base) / 1000 + 1)
    local value = pack('<dddd', now, now, ends, units)
    if not call('SET', key, value, 'NX', base == 0 and 'PXAT' or 'PX', expiry) then
      error('WRONGTYPE the key does not hold a fixed window', 0)
    end
    return this and pack('<dd', max - units, ends - now) or max - units, value
  elseif state and #state == 32 then
    local newest, begun, ends, used = struct.unpack('<dddd', state)
    if begun <= newest and newest <= now and now < ends and ends < 2 ^ 53 and used > 0 then
      if used + units <= max then
        local value = pack('<dddd', now, begun, ends, used + units)
        call('SETRANGE', key, '0', value)
        return pack('<dd', max - used - units, ends - now), value
      elseif max - used < cost and shortest == 0 then
        -- None of the callers is admitted. Where some are, counters.lua counts them.
        return pack('<HBddddd', 0, 0, math.max(0, max - used), ends - now, ends - now, 0, 0)
      end
    end
  end
end

-- Everything else is decided by windows.lua and counters.lua, which stand behind this file, with
-- these functions. What is used of a window is `current`; there is none before it that counts.
local holds, own, opens, more = 'fixed windows', 3, 1, 0
local function brought(at, now, max, window, this, following, numbers, own, open)
  local begun, ends, used, open = numbers[own], numbers[own + 1], numbers[own + 2], numbers[open]
  local next = at + window
  if this then
    next = at < ends and ends or at < this and this or following
    if now < this + 2 * window or now >= following or at >= next then
      error(string.format('CLOCK the time of the decision is %d, which is in no period of this call', at), 0)
    end
  end
  if at >= ends or used + open == 0 then
    begun, ends, used, open = at, next, 0, 0
  end
  return { capacity = max, start = begun, ends = ends, current = used, open = open, previous = 0, before = 0,
    free = max - used - open }
end
local function lasts(limit)
  return limit.ends
end
local function ends_at(limit, _, cost)
  if cost then
    return limit.capacity - limit.current < cost and limit.ends
  end
  return limit.free < limit.capacity and limit.ends
end
local function keep(limit, numbers, own, open)
  numbers[own], numbers[own + 1], numbers[own + 2], numbers[open] = limit.start, limit.ends, limit.current, limit.open
  return 0
end
local counts, used
if operation == 'refund' or operation == 'settle' then
  function counts(limit, time)
    return limit.start <= time and time < limit.ends
  end
  function used(limit)
    return limit.current + limit.open
  end
end
-- What counters.lua has to know of counters with windows. Before it stands the file of one of them, which
-- has said holds, own, opens, brought, ends_at and keep, and of a limit:
--   start, ends      what is used and open in its window, from `start` on, counts until `ends`
--   current, open    what is used and open of it
--   previous, before the same of the window before, which counts until half of that time
-- Of what was reserved, `counts` says whether it is of these windows; after a change, `used` how much of the
-- limit counts.
local first = 2
local function charge(limit, units, is_open)
  local sum = is_open and 'open' or 'current'
  limit[sum], limit.free = limit[sum] + units, limit.free - units
end
local settle
if operation == 'refund' or operation == 'settle' then
  function settle(limit, time, actual, cost, by_count, at)
    if limit.free == limit.capacity or not counts(limit, time) then
      return nil
    end
    local sum, open = 'current', 'open'
    if time < limit.start then
      sum, open = 'previous', 'before'
    end
    if by_count == 1 and limit[open] < cost then
      return 0
    end
    limit[open], limit[sum] = limit[open] - by_count * cost, limit[sum] + by_count * cost
    local back = math.min(limit[sum], math.max(0, cost - actual))
    limit[sum] = limit[sum] - back
    limit.free = limit.capacity - used(limit, at)
    return math.max(0, actual - cost), true, by_count == 1 or back > 0
  end
end
-- What all counters do where the question is not the common one. Before it stands the file of one of
-- them, which has said:
--   holds    what the key holds
--   first    which number of the value is the first of a limit's: 1 is the time of the newest write,
--            2 of a bucket until when its charges count
--   own      how many numbers a limit has
--   opens    how many of what is open of it by `count`
--   more     how many of its estimates, behind the block; the last of four is a level
--   brought  a limit at a time. A unit of cost takes `each` of its `capacity` (one, unless said), of
--            which `free` is left by what is used and what is open
--   charge   charges units to a limit, as an estimate or not, or opens them
--   ends_at  when a limit would admit a call, if what is open were released; without a cost, when
--            nothing of the limit counts any more. False: it does now
--   keep     writes a limit to its numbers; returns until when what is open matters
--   lasts    until when units that are taken ahead of a limit may be spent. Nil: as long as asked
--   settle   ends a reservation: what of the actual cost is to be charged, whether it may have been
--            open, and whether anything changed. Nil: its window is over, or nothing is known of it
--
-- What the key holds. One that was read with others may be of another type.
if not state and not is_read then
  state = call('GET', key)
end
local plain, numbers, floor, till, since, newer, over = first - 1 + own * count, {}, 0, 0, 0, 0, 0
local size, all = plain + opens * count + 3, plain + (opens + more) * count + 3
local stored = state and #state / 8 or 0
if first > 2 and (stored == plain + 5 or stored == size + 5 or stored == all + 5) then
  stored = stored - 5
  floor, till, since, newer, over = struct.unpack('<ddddd', state, 8 * stored + 1)
  -- A lease is up to 10 seconds.
  local sound = floor >= 0 and floor < 2 ^ 53 and floor % 1 == 0 and till >= 0 and till % 1 == 0
    and till <= struct.unpack('<d', state) + 10020000 and since >= 0 and since <= till
    and newer >= 0 and newer <= floor and newer % 1 == 0 and over >= 0 and over <= till
  stored = sound and stored or 0
end
local sound = stored == 0 and not state
  or stored == plain or stored == size or stored == all
if sound and state then
  numbers = { struct.unpack('<' .. string.rep('d', stored), state) }
end
for i = stored + 1, all do
  numbers[i] = 0
end
for i = 1, sound and stored or 0 do
  -- Of a bucket a level may be any number, and so may be until when it counts.
  local is_level = first > 2 and i > 1 and (i <= plain or i > size and (i - size) % 4 == 0)
  local number, most = numbers[i], is_level and 1 / 0 or 2 ^ 53
  sound = sound and (number >= 0 or first > 2 and i == 2) and number < most and (most > 2 ^ 53 or number % 1 == 0)
end
if not sound then
  error('WRONGTYPE the key does not hold ' .. holds .. ' of these limits', 0)
end
local newest, ends, strikes, remembered = numbers[1], unpack(numbers, size - 2, size)

-- The limits at this time, which stands still at the newest write as long as anything counts. Where a
-- `max` has fallen since then, the level of a bucket is forgotten before it has drained.
local at, limits, latest = math.max(now, newest), {}, 1 / 0
if first > 2 and numbers[2] < 0 then
  numbers[2] = -numbers[2]
end
if first > 2 and numbers[2] >= at then
  latest = math.floor(numbers[2]) + 1
end
for i = 1, count do
  local this, following
  if i > 1 then
    max, window, rest = struct.unpack('<dd', question, rest)
  end
  if first > 2 then
    this, rest = struct.unpack('<d', question, rest)
  elseif window < 0 then
    this, following, rest = struct.unpack('<dd', question, rest)
  end
  limits[i] = brought(at, now, max, window, this, following, numbers,
    first + own * (i - 1), plain + opens * (i - 1) + 1, floor, till)
end

-- What is done. Strikes are remembered as long as the rule that set the block says, and no longer
-- than a question with a range does.
local blocked, charged, blocks, admitted, limit_index = ends > at, false, false, 0, 0
local remaining, retry, reset, ticket = 0, 0, 0, 0
local grows = longest > 0 and operation ~= 'refund' and operation ~= 'settle'
if at >= ends + (grows and math.min(longest, remembered) or remembered) then
  strikes = 0
end
local charges = operation == 'acquire' or operation == 'reserve' or operation == 'estimate'
if charges or operation == 'peek' or operation == 'offend' then
  admitted = blocked and 0 or callers
  for i = 1, count do
    local free, weight = limits[i].free, cost * (limits[i].each or 1)
    admitted = math.min(admitted, free < weight and 0 or cost > 0 and math.floor(free / weight) or callers)
  end
  units = charges and admitted * cost or 0
  charged, ticket = units > 0, units > 0 and at or 0
  -- What the limits say to the next caller. A number of 2^53 is no answer.
  local least, offends, most = 1 / 0, false, 2 ^ 53 - 1
  remaining, latest = least, charged and 1 / 0 or latest
  for i = 1, count do
    local limit, wait = limits[i], 0
    if charged then
      charge(limit, units, operation == 'reserve', at)
    end
    if admitted < callers and limit.free < cost * (limit.each or 1) then
      local frees = ends_at(limit, at, cost, floor, till)
      wait, offends = math.min(most, (frees and math.min(latest, frees) or 50000 + at) - now), offends or frees
    end
    local left = math.max(0, math.floor(limit.free / (limit.each or 1)))
    if wait > retry or wait == retry and left < remaining then
      limit_index, retry, remaining = i - 1, wait, left
    end
    least = math.min(least, left)
  end
  local limit = limits[limit_index + 1]
  if latest < 1 / 0 and limit.current + limit.previous > 0 then
    -- What is open does not drain.
    latest = 1 / 0
  end
  reset = math.min(most, math.min(latest, ends_at(limit, at, nil, floor, till) or now) - now)
  if offends and shortest > 0 and not blocked and operation ~= 'peek' then
    ends, blocks = at + (grows and math.min(longest, shortest * 2 ^ math.min(strikes, 60)) or shortest), true
    strikes, remembered = grows and strikes + 1 or strikes, grows and longest or remembered
  end
  remaining = admitted > 0 and least or ends > at and 0 or remaining
  if admitted < callers and ends > at then
    retry, reset = math.max(retry, ends - now), math.max(reset, ends - now)
  end
elseif operation == 'grant' then
  -- Units are taken ahead for a lease of `retry` microseconds: up to a quarter of what is left, if
  -- that is worth a lease.
  local lease, least = struct.unpack('<d', question, rest), 1 / 0
  retry = lease
  for i = 1, count do
    local left = math.floor(limits[i].free / (limits[i].each or 1))
    if left < least then
      limit_index, least = i - 1, left
    end
    retry = math.min(retry, lasts and lasts(limits[i]) - at or lease)
  end
  units = math.floor(math.min(cost, least / 4) * retry / lease)
  if blocked or least < 32 or units < 8 then
    units = 0
  end
  charged, admitted, ticket, remaining = units > 0, units, at, math.max(0, least)
  if charged and first > 2 then
    -- They drain when the lease is over, and what is left is given back within 20 ms of that. Older
    -- units that are here then are lost: they are kept no longer, and the newer ones are the older.
    if at > till then
      floor, newer, over = 0, 0, at
    elseif at > over then
      floor, newer, over = newer, 0, till
    end
    floor, newer, till = floor + units, newer + units, math.max(till, at + lease + 20000)
    since = since > 0 and since or at
  end
  for i = 1, count do
    charge(limits[i], units, false, at)
  end
  reset = (ends_at(limits[limit_index + 1], at, nil, floor, till) or now) - now
elseif operation == 'return' then
  -- Of units that a bucket gave ahead, `cost` are left, but for what has drained since their time
  -- was over. Where there were none before, the key was reset.
  local time, granted, lease = struct.unpack('<ddd', question, rest)
  local lapse = time + lease + 20000
  local late = math.max(0, at - lapse)
  charged = since > 0 and since <= time
  admitted = charged and 1 or 0
  for i = 1, charged and count or 0 do
    local limit = limits[i]
    local level = limit.capacity - limit.free - (limit.current + limit.previous) * limit.each
    limit.free = limit.free + math.max(0, math.min(level, cost * limit.each - limit.max * late))
  end
  if charged and late == 0 then
    -- One that lapses later than the older leases is a newer one. Another may be too, if it was
    -- shorter: then its units are kept for longer.
    local older = floor - newer
    if lapse > over then
      newer = math.max(0, newer - granted)
    else
      older = math.max(0, older - granted)
    end
    floor = older + newer
  end
elseif operation == 'refund' or operation == 'settle' then
  -- A refund is the settlement of an estimate that did cost nothing. What it says of `retry` is how
  -- much of the actual cost is too much to be charged.
  local time, actual, by_count, again = struct.unpack('<d', question, rest), 0, 0, 1
  if operation == 'settle' then
    time, actual, by_count, again = struct.unpack('<dddd', question, rest)
  end
  for i = 1, count do
    local limit = limits[i]
    local more, was_open, changed = settle(limit, time, actual, cost, by_count, at, newest, again)
    more = more or again == 0 and actual or 0
    local units = math.max(0, math.min(more, math.floor((limit.capacity + limit.free) / (limit.each or 1))))
    charge(limit, units, false, at)
    admitted, charged, retry = was_open and 1 or admitted, charged or changed or units > 0, math.max(retry, more - units)
  end
  admitted = (operation == 'refund' and not charged) and 0 or admitted
elseif operation == 'block' then
  ends, blocks = at + struct.unpack('<d', question, rest), true
  remembered = grows and longest or remembered
elseif operation == 'unblock' then
  ends, strikes, blocks, admitted = 0, 0, ends > 0, blocked and 1 or 0
else
  error('ERR unknown operation ' .. operation, 0)
end

-- What is kept. A block alone leaves what counts as it is, unless nothing does.
local value = state
if charged or blocks then
  local lives, last = 0, plain
  numbers[1] = charged and at or newest
  for i = 1, count do
    local open = keep(limits[i], charged and numbers or {}, first + own * (i - 1), plain + opens * (i - 1) + 1)
    lives = math.max(lives, open, ends_at(limits[i], at, nil, floor, till) or 0)
  end
  if first > 2 then
    -- A block by another `max` leaves that as it is, too: at most twice the longest time to refill.
    local counts = charged and 0 or math.min(numbers[2], at + 2 * 366 * 86400e6)
    lives = counts > at and counts or lives
    numbers[2] = base == 0 and lives or -lives
  end
  for i = 1, lives == 0 and all or 0 do
    numbers[i] = 0
  end
  if strikes == 0 and ends <= at then
    ends, remembered = 0, 0
  end
  numbers[size - 2], numbers[size - 1], numbers[size] = ends, strikes, remembered
  lives = math.max(lives, strikes > 0 and ends + remembered or ends)
  if lives > 0 then
    for i = plain + 1, size - 2 do
      last = numbers[i] > 0 and size or last
    end
    for i = size + 1, all do
      last = numbers[i] > 0 and all or last
    end
    value = struct.pack('<' .. string.rep('d', last), unpack(numbers, 1, last))
    if since > 0 and numbers[2] ~= 0 then
      value = value .. struct.pack('<ddddd', floor, till, since, newer, over)
    end
    call('SET', key, value, base == 0 and 'PXAT' or 'PX', string.format('%d', (lives - base) / 1000 + 1))
  else
    value = false
    call('UNLINK', key)
  end
end
return struct.pack('<HBddddd', admitted, limit_index, remaining, retry, reset, ticket, ends > at and ends or 0), value
end
-- What every script ends with. `decide` returns its answer, and what the key holds now (false:
-- nothing; nil: not known, or as it was).
--
-- An answer: a number, whose meaning is the algorithm's: all are admitted at `now`. Or two: what
-- remains, and the time until the first limit is whole. Else a record: how many callers are
-- admitted, which limit decided, what remains, the time until the next caller would be admitted,
-- the time until that limit is whole, the first ticket, and the block's end (0: none).
--
-- A lone reply: the call's number, its time, and the answer. Of a call, packed by MessagePack, because
-- a client reads one string much faster than an array: number, time, and an answer for each pair of a
-- question and a key. A key that fails, fails alone: its answer is a table of the error's text.
if not ARGV[2] then
  local answer = decide(KEYS[1], 1, nil, call, now, base, nil,
    ARGV[1], operation, cost, count, shortest, longest, max, window, rest)
  return struct.pack(type(answer) == 'number' and '<I4dd' or '<I4dc0', number, now, answer)
end

-- Decides for the callers at `from` on until a key fails, and adds the answers to `reply`: a
-- `pcall` for each key would cost more.
local function decide_from(from, callers, reply, states, keys, decide, ...)
  local byte, last = string.byte, #reply
  for from = from, #callers, 3 do
    local index, low, high = byte(callers, from, from + 2)
    local answer, state = decide(keys[index], low + 256 * high, states[index], ...)
    if state ~= nil then
      states[index] = state
    end
    last = last + 1
    reply[last] = answer
  end
end
local fmt, reply, question = string.format, { number, now }, ARGV[1]
local states = READS and call('MGET', unpack(KEYS)) or {}
for i = 2, #ARGV, 2 do
  if i > 2 then
    question = ARGV[i - 1]
    operation, cost, count, shortest, longest, max, window, rest = struct.unpack('<Bc0dBdddd', question)
  end
  local shared = { expiry = fmt('%d', (now - base + WINDOWS * window) / 1000 + 1),
    now = not READS and fmt('%d', now), live = not READS and fmt('%d', now - window + 1),
    double = READS and #question >= rest + 7 and struct.unpack('<d', question, rest) }
  local callers, before = ARGV[i], #reply
  while 3 * (#reply - before) < #callers do
    local ok, failure = pcall(decide_from, 3 * (#reply - before) + 1, callers, reply, states, KEYS, decide,
      call, now, base, shared, question, operation, cost, count, shortest, longest, max, window, rest)
    if not ok then
      -- An error of Redis is a table, up to 6.2 a text that begins with its place in the script.
      failure = type(failure) == 'table' and failure.err or failure
      reply[#reply + 1] = { string.find(failure, '^%u+ ') and failure or 'ERR ' .. failure }
      states[string.byte(callers, 3 * (#reply - before) - 2)] = nil
    end
  end
end
return cmsgpack.pack(reply)
