-- The sliding counter: for each limit what is used of this window, and of the one before, of which
-- as much counts as the last `window` still overlaps, rounded up. A window begins with the first
-- charge that finds none, and the next one where it ends. What is open by `count` counts as if it
-- were charged in its window, and is forgotten with it.
--
-- The value, in doubles: the time of the newest write; for each limit when its window began, and
-- what is used of it and of the one before. While anything is open, or there is a block or strikes
-- are remembered: what is open of each limit's two windows; the block's end, the strikes, and for
-- how long they are remembered after it.
--
-- Expiry: when the last of it no longer counts. A common answer: what remains, where a window
-- begins now; else what remains, and the time until nothing counts any more.
local call, fmt, units = redis.call, string.format, callers * cost
local is_read = state == nil
if is_read then
  state = call('GET', key)
end

-- The common question: a charge under one limit, nothing open, no block, a clock that goes forward
-- and stands in this window or in the next, numbers that can be multiplied.
if count == 1 and (operation == 'acquire' or operation == 'estimate') and cost > 0 then
  if not state and units <= max then
    local value = struct.pack('<dddd', now, now, units, 0)
    if not call('SET', key, value, 'NX', PXAT, expiry) then
      error('WRONGTYPE the key does not hold a sliding counter', 0)
    end
    return max - units, value
  elseif state and #state == 32 then
    local newest, start, current, previous = struct.unpack('<dddd', state)
    local over = start + 2 * window
    if now >= start + window and now < over and current > 0 then
      start, current, previous, over = start + window, 0, current, over + window
    end
    local overlap = start + window - now
    local weighed = previous * overlap
    local left = max - current - (weighed + -weighed % window) / window
    local sound = newest <= now and overlap > 0 and overlap <= window and current >= 0 and previous >= 0
      and current + previous > 0 and (current + previous + units) * window < 2 ^ 53
    if sound and units <= left then
      current = current + units
      local value = struct.pack('<dddd', now, start, current, previous)
      if current == units then
        -- The first charge of this window, which lives longer than the one before.
        call('SET', key, value, PXAT, fmt('%d', (over - base) / 1000 + 1))
      else
        call('SETRANGE', key, '0', value)
      end
      return struct.pack('<dd', left - units, over - now), value
    elseif sound and left < cost and shortest == 0 then
      -- What still counts of a window has to sink to what leaves room.
      local room, last, free = max - cost - current, previous, start + window
      if room < 0 then
        room, last, free = math.max(0, max - cost), current, over
      end
      return struct.pack('<HBddddd', 0, 0, left > 0 and left or 0, free - math.floor(room * window / last) - now,
        (current > 0 and over or over - window) - now, 0, 0)
    end
  end
end

-- Everything else: what the key holds. One that was read with others may be of another type.
if not state and not is_read then
  state = call('GET', key)
end
local plain, size, numbers = 3 * count + 1, 5 * count + 4, {}
local sound = not state or #state == 8 * plain or #state == 8 * size
for i = 1, size do
  local number = state and 8 * i <= #state and struct.unpack('<d', state, 8 * i - 7) or 0
  sound, numbers[i] = sound and number >= 0 and number < 2 ^ 53 and number % 1 == 0, number
end
if not sound then
  error('WRONGTYPE the key does not hold sliding counters of these limits', 0)
end
local newest, ends, strikes, remembered = numbers[1], unpack(numbers, size - 2)

-- When a limit no longer counts; and how much counts of a window of which so much overlaps, rounded
-- up: a product of 2^53 or more is divided by seven bits at a time.
local function over(limit)
  return limit.current + limit.open > 0 and limit.start + 2 * limit.window
    or limit.previous + limit.before > 0 and limit.start + limit.window or 0
end
local function weighed(last, overlap, window)
  local whole, part = 0, last * overlap
  if part >= 2 ^ 53 then
    part = 0
    for shift = 49, 0, -7 do
      part = part % window * 128 + math.floor(last / 2 ^ shift) % 128 * overlap
      whole = 128 * whole + (part - part % window) / window
    end
    part = part % window
  end
  return whole + (part - part % window) / window + (part % window > 0 and 1 or 0)
end

-- The limits at this time, which stands still at the newest write as long as anything counts.
local at, limits = math.max(now, newest), {}
for i = 1, count do
  if i > 1 then
    max, window, rest = struct.unpack('<dd', question, rest)
  end
  local start, current, previous = unpack(numbers, 3 * i - 1, 3 * i + 1)
  local open, before = unpack(numbers, plain + 2 * i - 1, plain + 2 * i)
  local passed = math.floor((at - start) / window)
  if passed == 1 and current + open > 0 then
    start, current, previous, open, before = start + window, 0, current, 0, open
  elseif passed ~= 0 or current + open + previous + before == 0 then
    start, current, previous, open, before = at, 0, 0, 0, 0
  end
  limits[i] = { max = max, window = window, start = start,
    current = current, previous = previous, open = open, before = before }
end
local function used(limit)
  local overlap = limit.start + limit.window - at
  return weighed(limit.previous + limit.before, overlap, limit.window) + limit.current + limit.open
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
    local left = limits[i].max - used(limits[i])
    admitted = math.min(admitted, left < cost and 0 or cost > 0 and math.floor(left / cost) or callers)
  end
  units = operation == 'peek' and 0 or admitted * cost
  charged, ticket = units > 0, units > 0 and at or 0
  -- What the limits say to the next caller: as if what is open were released.
  local least, offends = 1 / 0, false
  remaining = least
  local sum = operation == 'reserve' and 'open' or 'current'
  for i = 1, count do
    local limit, wait = limits[i], 0
    limit[sum] = limit[sum] + units
    local left = limit.max - used(limit)
    if admitted < callers and left < cost then
      -- What still counts of a window has to sink to what leaves room.
      local room, last, free = limit.max - cost - limit.current, limit.previous, limit.start + limit.window
      wait = 50000 + at - now
      if weighed(last, free - at, limit.window) > room then
        if room < 0 then
          room, last, free = math.max(0, limit.max - cost), limit.current, free + limit.window
        end
        local overlap = math.min(limit.window, math.floor(room / last * limit.window) + 1)
        while weighed(last, overlap, limit.window) > room do
          overlap = overlap - 1
        end
        wait, offends = free - overlap - now, true
      end
    end
    left = math.max(0, left)
    if wait > retry or wait == retry and left < remaining then
      limit_index, retry, remaining = i - 1, wait, left
      reset = math.max(0, over(limit) - now)
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
  for i = 1, count do
    local limit, more, sum, open = limits[i], again == 1 and 0 or actual, 'current', 'open'
    if time < limit.start then
      sum, open = 'previous', 'before'
    end
    if over(limit) > 0 and time >= limit.start - limit.window then
      -- Of a window that counts: the difference.
      more = 0
      if by_count == 0 or limit[open] >= cost then
        limit[open], limit[sum] = limit[open] - by_count * cost, limit[sum] + by_count * cost
        local back = math.min(limit[sum], math.max(0, cost - actual))
        limit[sum], charged = limit[sum] - back, charged or by_count == 1 or back > 0
        more, admitted = math.max(0, actual - cost), 1
      end
    end
    local charge = math.max(0, math.min(more, 2 * limit.max - used(limit)))
    limit.current, charged, retry = limit.current + charge, charged or charge > 0, math.max(retry, more - charge)
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
  local lives, is_open = 0, false
  numbers[1] = charged and at or newest
  for i = 1, count do
    local limit = limits[i]
    lives = math.max(lives, over(limit))
    if charged then
      numbers[3 * i - 1], numbers[3 * i], numbers[3 * i + 1] = limit.start, limit.current, limit.previous
      numbers[plain + 2 * i - 1], numbers[plain + 2 * i] = limit.open, limit.before
    end
    is_open = is_open or numbers[plain + 2 * i - 1] + numbers[plain + 2 * i] > 0
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
    local last = (ends > 0 or is_open) and size or plain
    value = struct.pack('<' .. string.rep('d', last), unpack(numbers, 1, last))
    call('SET', key, value, PXAT, fmt('%d', (lives - base) / 1000 + 1))
  else
    value = false
    call('UNLINK', key)
  end
end
return struct.pack('<HBddddd', admitted, limit_index, remaining, retry, reset, ticket, ends > at and ends or 0), value
