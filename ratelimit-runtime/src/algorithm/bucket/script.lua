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
