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
-- Both buckets. A limit's level is what was charged and has not drained yet, in tokens times
-- microseconds of the window: `max` of these units drain in a microsecond. Where they are too large
-- to be exact, time goes in ticks, as mod.rs says. What is open by `count` counts beside the level,
-- does not drain, and is forgotten with its period, which is as long as the limit needs from empty
-- to full, or with the next one.
--
-- While estimates are open, two numbers bound what their calls can have used: the level, and what
-- is settled (the level without them) and all of them. Settling brings the level to the lower one.
--
-- The value, in doubles: the time of the newest write; until when the levels count, below 0 where
-- the clock is the caller's; a level for each limit. While anything is open, or there is a block or
-- strikes are remembered: what is open of each limit's period and of the one before, and when this
-- began; the block's end, the strikes, and for how long they are remembered after it. While there
-- are estimates: of each limit, those of a period and of the one before, when this began, and what
-- is settled. At the end, once units were taken ahead: how many are, until when the level does not
-- drain below them, since when there were any; how many of them are of the newer leases, and when
-- the other leases are over.
--
-- Of a limit, a question says max, window and burst. Expiry: the first write lives until all has
-- drained, a later one that needs more twice as long as from empty to full. A common answer: the
-- level, in ticks of the limit.
local units, is_read = 0, false
if state == nil then
  state, is_read = call('GET', key), true
end
local burst = shared and shared.double or struct.unpack('<d', question, rest)
local capacity, size = burst * window, state and #state or 24

-- The common question: one limit, nothing open, no block, a clock that goes forward.
if count == 1 and operation == 'acquire' and cost > 0 and (size == 24 or size == 64) then
  local newest, lives, level, till, tick, each = 0, 0, 0, 0, 1, window
  if state then
    newest, lives, level = struct.unpack('<ddd', state)
  end
  local passed, begun, last = now - newest, 0, now
  if capacity >= 2 ^ 52 then
    -- The power of two that brings the capacity below 2^52, or twice that where the window, rounded
    -- up, is too long.
    tick = shared and shared.tick or capacity / math.frexp(capacity) / 2 ^ 52
    each = window + -window % tick
    if burst * each >= 2 ^ 52 * tick then
      tick = 2 * tick
      each = window + -window % tick
    end
    if shared then
      shared.tick = tick
    end
    begun = now % tick
    last = now + tick - 1
    capacity = burst * each
    level = level + -level % tick
    passed = passed + newest % tick - begun
  end
  if size == 64 then
    local floor
    floor, till = struct.unpack('<dd', state, 25)
    if floor >= 0 and floor < 2 ^ 53 and floor % 1 == 0 and till >= 0 and till % 1 == 0
      and till <= newest + 10020000 and level < 2 ^ 53 * tick then
      if till > newest then
        -- What is taken ahead drains from `till` on, and lives as long as from then.
        local held = math.min(passed, till + -till % tick - newest + newest % tick)
        level, passed = math.max(math.min(level, floor * each), level - max * held), passed - held
        last = math.max(last, till)
      end
    else
      -- What no bucket holds is an error below.
      newest = 1 / 0
    end
  end
  if not state or newest <= now and newest % 1 == 0 and level >= 0 and level < 2 ^ 53 * tick then
    level = level - max * passed
    -- Where `max` has fallen since the newest write, a level counts no longer than by the old one.
    level = level > 0 and (lives >= now or lives <= -now) and level or 0
    local weight, free, admitted, value = cost * each, capacity - level, callers, nil
    if callers * weight > free then
      admitted = free > 0 and math.floor(free / weight) or 0
    end
    if (admitted == callers or shortest == 0 and till <= now)
      and (admitted > 0 or state ~= false) then
      if admitted > 0 then
        level = level + admitted * weight
        local drained = last + level / max
        if drained <= lives then
          value = struct.pack('<ddd', now, lives, level)
          call('SETRANGE', key, '0', value)
        else
          lives = state and last + 2 * capacity / max or drained
          value = struct.pack('<ddd', now, base == 0 and lives or -lives, level)
          local expiry = string.format('%d', (lives - base) / 1000 + 1)
          if state then
            call('SETRANGE', key, '0', value)
            call(base == 0 and 'PEXPIREAT' or 'PEXPIRE', key, expiry)
          elseif not call('SET', key, value, 'NX', base == 0 and 'PXAT' or 'PX', expiry) then
            error('WRONGTYPE the key does not hold a bucket', 0)
          end
        end
      end
      if size == 64 then
        value = value and value .. string.sub(state, 25)
      end
      if admitted == callers then
        return level / tick, value
      end
      free = capacity - level
      local retry, reset = math.ceil((weight - free) / max), math.ceil(level / max)
      if tick > 1 then
        -- Both end with a tick.
        retry = retry + -retry % tick - begun
        reset = reset > 0 and reset + -reset % tick - begun or 0
      end
      lives = lives > 0 and lives or -lives
      if admitted == 0 and lives >= now and reset > lives + 1 - now then
        reset = math.floor(lives) + 1 - now
        retry = math.min(retry, reset)
      end
      return struct.pack('<HBddddd', admitted, 0, free > 0 and math.floor(free / each) or 0, retry, reset,
        admitted > 0 and now or 0, 0), value
    end
  end
end

-- Everything else is decided by counters.lua, which stands behind this file, with these functions.
local holds, first, own, opens, more = 'buckets', 3, 1, 3, 0
local function brought(at, now, max, window, burst, _, numbers, own, open, floor, till)
  local newest, level, tick = numbers[1], numbers[2] >= at and numbers[own] or 0, 1
  if 2 * burst * window >= 2 ^ 53 or level >= 2 ^ 53 then
    local units = math.max(2 * burst * window, level)
    tick = units / math.frexp(units) / 2 ^ 53
    tick = 2 * burst * math.ceil(window / tick) < 2 ^ 53 and tick or 2 * tick
  end
  local each, passed = math.ceil(window / tick) * tick, at - at % tick - (newest - newest % tick)
  level = math.ceil(level / tick) * tick
  if till > newest then
    local held = math.min(passed, math.ceil(till / tick) * tick - (newest - newest % tick))
    level, passed = math.max(math.min(level, floor * each), level - max * held), passed - held
  end
  level = math.max(0, level - max * passed)
  local capacity, current, previous, since = burst * each, numbers[open], numbers[open + 1], numbers[open + 2]
  -- Under a `max` of 0 nothing drains, and a reservation counts for a window.
  local rate = math.max(max, 1)
  local period = math.ceil(math.max(capacity, each) / tick / rate) * tick
  if current + previous > 0 then
    if at >= since + 2 * period then
      current, previous = 0, 0
    elseif at >= since + period then
      current, previous, since = 0, current, since + period
    end
  end
  return { max = max, rate = rate, each = each, tick = tick, capacity = capacity, period = period,
    current = current, previous = previous, since = since,
    free = capacity - level - (current + previous) * each }
end
local function charge(limit, units, is_open, at)
  if is_open then
    limit.since = limit.current + limit.previous > 0 and limit.since or at
    limit.current = limit.current + units
  end
  limit.free = limit.free - units * limit.each
end
local function ends_at(limit, at, cost, floor, till)
  local level, sinks = limit.capacity - limit.free, 0
  if cost then
    sinks = (cost - limit.current - limit.previous) * limit.each - limit.capacity
  end
  level, floor = level + sinks, floor * limit.each + sinks
  local tick = limit.tick
  local ends = level > 0 and at + math.ceil(level / tick / limit.rate) * tick - at % tick
  if ends and till > at and floor > 0 then
    -- What is taken ahead begins to drain then.
    ends = math.max(ends, till + -till % tick + math.ceil(floor / tick / limit.rate) * tick)
  end
  return ends
end
local function keep(limit, numbers, own, open)
  local current, previous, period = limit.current, limit.previous, limit.period
  numbers[own] = limit.capacity - limit.free - (current + previous) * limit.each
  numbers[open], numbers[open + 1], numbers[open + 2] = current, previous, current + previous > 0 and limit.since or 0
  return current > 0 and limit.since + 2 * period or previous > 0 and limit.since + period or 0
end
if operation == 'estimate' or size == 64 * count + 40 or size == 64 * count + 80 then
  local bring, add, write = brought, charge, keep
  more = 4
  -- The numbers of the limit whose open ones begin there stand behind these.
  local function behind(open)
    return 4 * count + 5 + (open - count - 3) / 3 * 4
  end
  function brought(at, now, max, window, burst, following, numbers, own, open, floor, till)
    local limit = bring(at, now, max, window, burst, following, numbers, own, open, floor, till)
    local tick, level = limit.tick, limit.capacity - limit.free
    level = level - (limit.current + limit.previous) * limit.each
    local period = limit.period
    local estimated, before, begun, settled = unpack(numbers, behind(open) + 1, behind(open) + 4)
    -- It need not drain while units are taken ahead.
    local passed = till > numbers[1] and 0 or at - at % tick - (numbers[1] - numbers[1] % tick)
    settled = math.min(level, math.max(0, math.ceil(settled / tick) * tick - max * passed))
    if level == 0 or at >= begun + 2 * period then
      estimated, before = 0, 0
    elseif at >= begun + period then
      -- An estimate that is forgotten counts as what its call did cost.
      settled = settled + before * limit.each
      estimated, before, begun = 0, estimated, begun + period
    end
    limit.estimated, limit.before, limit.begun = estimated, before, begun
    limit.settled = estimated + before > 0 and settled or level
    return limit
  end
  function charge(limit, units, is_open, at)
    if operation == 'estimate' then
      limit.begun = limit.estimated + limit.before > 0 and limit.begun or at
      limit.estimated = limit.estimated + units
    elseif not is_open then
      limit.settled = limit.settled + units * limit.each
    end
    add(limit, units, is_open, at)
  end
  function keep(limit, numbers, own, open)
    local at, is_open = behind(open), limit.estimated + limit.before > 0
    numbers[at + 1], numbers[at + 2] = limit.estimated, limit.before
    numbers[at + 3] = is_open and limit.begun or 0
    numbers[at + 4] = is_open and limit.settled or 0
    return write(limit, numbers, own, open)
  end
end
local lasts, settle
if operation == 'refund' or operation == 'settle' then
  function settle(limit, time, actual, cost, by_count, at, newest, again)
    local period = limit.period
    local is_over, back = time + period <= at, 0
    if by_count == 1 then
      local sum = time >= limit.since and 'current' or time >= limit.since - period and 'previous'
      if not sum or limit[sum] < cost then
        return not is_over and 0 or nil
      end
      limit[sum], limit.free = limit[sum] - cost, limit.free + cost * limit.each
      return actual, true, true
    elseif is_over then
      return nil
    elseif time <= newest then
      -- Without the charge the bucket might have stood empty since, but for what came last.
      local passed = time < newest and at - at % limit.tick - (time - time % limit.tick) or 0
      local level = limit.capacity - limit.free - (limit.current + limit.previous) * limit.each
      back = math.min(math.max(0, cost - actual) * limit.each, cost * limit.each - limit.max * passed)
      back = math.max(0, math.min(level, back))
      local begun = limit.begun or 1 / 0
      local sum = time >= begun and 'estimated' or time >= begun - period and 'before'
      if again == 0 and sum and limit[sum] >= cost then
        limit[sum] = limit[sum] - cost
        limit.settled = limit.settled + math.min(actual, cost) * limit.each
        back = math.max(back, level - limit.settled - (limit.estimated + limit.before) * limit.each)
        limit.free = limit.free + back
        return math.max(0, actual - cost), true, true
      end
      limit.free = limit.free + back
    end
    return math.max(0, actual - cost), true, back > 0
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
