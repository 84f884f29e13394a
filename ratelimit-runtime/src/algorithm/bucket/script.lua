-- Both buckets. A limit's level is what was charged and has not drained yet, in tokens times
-- microseconds of the window: `max` of these units drain in a microsecond. Where they are too large
-- to be exact, time goes in ticks, as mod.rs says. What is open by `count` counts beside the level,
-- does not drain, and is forgotten with its period, which is as long as the limit that takes
-- longest needs from empty to full, or with the next one.
--
-- The value, in doubles: the time of the newest write; until when the key lives, 0 where the clock
-- is the caller's; a level for each limit. While anything is open, or there is a block or strikes
-- are remembered: what is open of this period and of the one before, and when this began; the
-- block's end, the strikes, and for how long they are remembered after it.
--
-- Of a limit, a question says max, window and burst. Expiry: the first write lives until all has
-- drained, a later one that needs more twice as long as from empty to full. A common answer: the
-- level.
local call, fmt, units = redis.call, string.format, 0
local is_read = state == nil
if is_read then
  state = call('GET', key)
end
local burst = struct.unpack('<d', question, rest)
local capacity = burst * window

-- The common question: one limit, nothing open, no block, a clock that goes forward, ticks of a
-- microsecond.
if count == 1 and (operation == 'acquire' or operation == 'estimate') and cost > 0 and (not state or #state == 24) then
  local newest, lives, level = 0, 0, 0
  if state then
    newest, lives, level = struct.unpack('<ddd', state)
  end
  if newest <= now and newest % 1 == 0 and level >= 0 and level < 2 ^ 53 and capacity < 2 ^ 52 then
    level = level - max * (now - newest)
    level = level > 0 and level or 0
    local weight, free, admitted, value = cost * window, capacity - level, callers, nil
    if callers * weight > free then
      admitted = free > 0 and math.floor(free / weight) or 0
    end
    if (admitted == callers or shortest == 0) and (admitted > 0 or state ~= false) then
      if admitted > 0 then
        level = level + admitted * weight
        local drained = now + level / max
        if drained <= lives then
          value = struct.pack('<ddd', now, lives, level)
          call('SETRANGE', key, '0', value)
        elseif state then
          lives = now + 2 * capacity / max
          value = struct.pack('<ddd', now, base == 0 and lives or 0, level)
          call('SET', key, value, PXAT, fmt('%d', (lives - base) / 1000 + 1))
        else
          value = struct.pack('<ddd', now, base == 0 and drained or 0, level)
          if not call('SET', key, value, 'NX', PXAT, fmt('%d', (drained - base) / 1000 + 1)) then
            error('WRONGTYPE the key does not hold a bucket', 0)
          end
        end
      end
      if admitted == callers then
        return level, value
      end
      free = capacity - level
      local retry, reset = math.ceil((weight - free) / max), math.ceil(level / max)
      if admitted == 0 and lives > now and reset > lives + 2000 - now then
        -- Where `max` has fallen since the newest write, the key ends before its level has drained.
        reset = math.ceil(lives) + 2000 - now
        retry = math.min(retry, reset)
      end
      return struct.pack('<HBddddd', admitted, 0, free > 0 and math.floor(free / window) or 0, retry, reset,
        admitted > 0 and now or 0, 0), value
    end
  end
end

-- Everything else: what the key holds. One that was read with others may be of another type.
if not state and not is_read then
  state = call('GET', key)
end
local plain, size, numbers = 2 + count, 8 + count, {}
local sound = not state or #state == 8 * plain or #state == 8 * size
for i = 1, size do
  local number = state and 8 * i <= #state and struct.unpack('<d', state, 8 * i - 7) or 0
  local is_level = i > 2 and i <= plain
  sound = sound and number >= 0 and (number < 2 ^ 53 or is_level) and (number % 1 == 0 or i == 2)
  numbers[i] = number
end
if not sound then
  error('WRONGTYPE the key does not hold buckets of these limits', 0)
end
local newest, lives, current, previous, since, ends, strikes, remembered = numbers[1], numbers[2], unpack(numbers, plain + 1)

-- The limits at this time, which stands still at the newest write as long as anything counts.
local at, limits, period = math.max(now, newest), {}, 0
for i = 1, count do
  if i > 1 then
    max, window, rest = struct.unpack('<dd', question, rest)
  end
  burst, rest = struct.unpack('<d', question, rest)
  local level, tick = numbers[2 + i], 1
  while 2 * burst * math.ceil(window / tick) >= 2 ^ 53 or math.ceil(level / tick) >= 2 ^ 53 do
    tick = 2 * tick
  end
  local each, passed = math.ceil(window / tick) * tick, at - at % tick - (newest - newest % tick)
  level = math.max(0, math.ceil(level / tick) * tick - max * passed)
  limits[i] = { max = max, each = each, capacity = burst * each, level = level, tick = tick }
  period = math.max(period, math.ceil(burst * each / tick / max) * tick)
end
if at >= since + 2 * period then
  current, previous = 0, 0
elseif at >= since + period then
  current, previous, since = 0, current, since + period
end
-- How long it takes from `at` on until so much of a limit has drained.
local function drains(limit, level)
  return level > 0 and math.ceil(level / limit.tick / limit.max) * limit.tick - at % limit.tick or 0
end

-- What is done. Only a question with a range forgets strikes.
local blocked, charged, blocks, admitted, limit_index = ends > at, false, false, 0, 0
local remaining, retry, reset, ticket = 0, 0, 0, 0
local grows = longest > 0 and operation ~= 'refund' and operation ~= 'settle'
if at >= ends + (grows and longest or remembered) then
  strikes = 0
end
if operation == 'acquire' or operation == 'reserve' or operation == 'estimate' or operation == 'peek' then
  admitted = blocked and 0 or callers
  for i = 1, count do
    local limit = limits[i]
    local left, weight = limit.capacity - limit.level - (current + previous) * limit.each, cost * limit.each
    admitted = math.min(admitted, left < weight and 0 or cost > 0 and math.floor(left / weight) or callers)
  end
  units = operation == 'peek' and 0 or admitted * cost
  charged, ticket = units > 0, units > 0 and at or 0
  -- What the limits say to the next caller: as if what is open were released.
  local least, offends = 1 / 0, false
  remaining = least
  if operation == 'reserve' then
    current, since = current + units, current + previous > 0 and since or at
  end
  -- Where a `max` has fallen since the newest write, the key ends before its level has drained.
  -- A number of 2^53 is no answer.
  local most = lives > now and not charged and math.ceil(lives) + 2000 - now or 2 ^ 53 - 1
  for i = 1, count do
    local limit, wait = limits[i], 0
    limit.level = limit.level + (operation == 'reserve' and 0 or units * limit.each)
    local free, weight, open = limit.capacity - limit.level, cost * limit.each, (current + previous) * limit.each
    if admitted < callers and free - open < weight then
      wait = 50000 + at - now
      if free < weight then
        wait, offends = math.min(most, drains(limit, weight - free) + at - now), true
      end
    end
    local left = math.max(0, math.floor((free - open) / limit.each))
    if wait > retry or wait == retry and left < remaining then
      limit_index, retry, remaining = i - 1, wait, left
      reset = drains(limit, limit.level + open)
      reset = reset > 0 and math.min(most, reset + at - now) or 0
    end
    least = math.min(least, left)
  end
  if offends and shortest > 0 and not blocked and operation ~= 'peek' then
    ends, blocks = at + (grows and math.min(longest, shortest * 2 ^ math.min(strikes, 60)) or shortest), true
    strikes, remembered = grows and strikes + 1 or strikes, grows and longest or remembered
  end
  remaining = admitted > 0 and least or ends > at and 0 or remaining
  if admitted < callers and ends > at then
    retry, reset = math.max(retry, ends - now), math.max(reset, ends - now)
  end
elseif operation == 'refund' or operation == 'settle' then
  -- A refund is the settlement of an estimate that did cost nothing. What it says of `retry` is how
  -- much of the actual cost is too much to be charged.
  local time, actual, by_count, again = struct.unpack('<d', question, rest), 0, 0, 1
  if operation == 'settle' then
    time, actual, by_count, again = struct.unpack('<dddd', question, rest)
  end
  local more, is_over = 0, time + period <= at
  if by_count == 1 and time >= since and current >= cost then
    current, more, charged, admitted = current - cost, actual, true, 1
  elseif by_count == 1 and time < since and time >= since - period and previous >= cost then
    previous, more, charged, admitted = previous - cost, actual, true, 1
  elseif is_over then
    more = again == 1 and 0 or actual
  elseif by_count == 0 then
    more, admitted = math.max(0, actual - cost), 1
  end
  for i = 1, count do
    local limit = limits[i]
    if by_count == 0 and not is_over and time <= newest then
      -- Without the charge the bucket might have stood empty since, but for what came last.
      local passed = time < newest and at - at % limit.tick - (time - time % limit.tick) or 0
      local back = math.min(math.max(0, cost - actual) * limit.each, cost * limit.each - limit.max * passed)
      back = math.max(0, math.min(limit.level, back))
      limit.level, charged = limit.level - back, charged or back > 0
    end
    local room = 2 * limit.capacity - limit.level - (current + previous) * limit.each
    local charge = math.max(0, math.min(more, math.floor(room / limit.each)))
    limit.level, charged = limit.level + charge * limit.each, charged or charge > 0
    retry = math.max(retry, more - charge)
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
  lives = current > 0 and since + 2 * period or previous > 0 and since + period or 0
  numbers[1] = charged and at or newest
  for i = 1, count do
    local limit = limits[i]
    lives = limit.level > 0 and math.max(lives, at + drains(limit, limit.level)) or lives
    numbers[2 + i] = charged and limit.level or numbers[2 + i]
  end
  if charged then
    numbers[size - 5], numbers[size - 4], numbers[size - 3] = current, previous, since
  end
  for i = 1, lives == 0 and size or 0 do
    numbers[i] = 0
  end
  if strikes == 0 and ends <= at then
    ends, remembered = 0, 0
  end
  numbers[size - 2], numbers[size - 1], numbers[size] = ends, strikes, remembered
  lives = math.max(lives, strikes > 0 and ends + remembered or ends)
  if lives > 0 then
    numbers[2] = base == 0 and lives or 0
    local last = ends + numbers[size - 5] + numbers[size - 4] > 0 and size or plain
    value = struct.pack('<' .. string.rep('d', last), unpack(numbers, 1, last))
    call('SET', key, value, PXAT, fmt('%d', (lives - base) / 1000 + 1))
  else
    value = false
    call('UNLINK', key)
  end
end
return struct.pack('<HBddddd', admitted, limit_index, remaining, retry, reset, ticket, ends > at and ends or 0), value
