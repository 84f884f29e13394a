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
local call, fmt, units = redis.call, string.format, callers * cost
local is_read = state == nil
if is_read then
  state = call('GET', key)
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
    expiry = this and fmt('%d', (ends - base) / 1000 + 1) or expiry
    local value = struct.pack('<dddd', now, now, ends, units)
    if not call('SET', key, value, 'NX', PXAT, expiry) then
      error('WRONGTYPE the key does not hold a fixed window', 0)
    end
    return this and struct.pack('<dd', max - units, ends - now) or max - units, value
  elseif state and #state == 32 then
    local newest, begun, ends, used = struct.unpack('<dddd', state)
    local left, sound = max - used, begun <= newest and newest <= now and now < ends and ends < 2 ^ 53 and used > 0
    if sound and units <= left then
      local value = struct.pack('<dddd', now, begun, ends, used + units)
      call('SETRANGE', key, '0', value)
      return struct.pack('<dd', left - units, ends - now), value
    elseif sound and left < cost and shortest == 0 then
      return struct.pack('<HBddddd', 0, 0, left > 0 and left or 0, ends - now, ends - now, 0, 0)
    end
  end
end

-- Everything else: what the key holds. One that was read with others may be of another type.
if not state and not is_read then
  state = call('GET', key)
end
local plain, size, numbers = 3 * count + 1, 4 * count + 4, {}
local sound = not state or #state == 8 * plain or #state == 8 * size
for i = 1, size do
  local number = state and 8 * i <= #state and struct.unpack('<d', state, 8 * i - 7) or 0
  sound, numbers[i] = sound and number >= 0 and number < 2 ^ 53 and number % 1 == 0, number
end
if not sound then
  error('WRONGTYPE the key does not hold fixed windows of these limits', 0)
end
local newest, ends, strikes, remembered = numbers[1], unpack(numbers, size - 2)

-- The limits at this time, which stands still at the newest write as long as anything counts.
local at, limits = math.max(now, newest), {}
for i = 1, count do
  if i > 1 then
    max, window, rest = struct.unpack('<dd', question, rest)
  end
  local begun, ends, used = unpack(numbers, 3 * i - 1, 3 * i + 1)
  local open, next = numbers[plain + i], at + window
  if window < 0 then
    local this, following
    this, following, rest = struct.unpack('<dd', question, rest)
    next = at < ends and ends or at < this and this or following
    if now < this + 2 * window or now >= following or at >= next then
      error(fmt('CLOCK the time of the decision is %d, which is in no period of this call', at), 0)
    end
  end
  if at >= ends or used + open == 0 then
    begun, ends, used, open = at, next, 0, 0
  end
  limits[i] = { max = max, begun = begun, ends = ends, used = used, open = open }
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
    local left = limits[i].max - limits[i].used - limits[i].open
    admitted = math.min(admitted, left < cost and 0 or cost > 0 and math.floor(left / cost) or callers)
  end
  units = operation == 'peek' and 0 or admitted * cost
  charged, ticket = units > 0, units > 0 and at or 0
  -- What the limits say to the next caller: as if what is open were released.
  local least, offends = 1 / 0, false
  remaining = least
  local sum = operation == 'reserve' and 'open' or 'used'
  for i = 1, count do
    local limit, wait = limits[i], 0
    limit[sum] = limit[sum] + units
    local left = limit.max - limit.used - limit.open
    if admitted < callers and left < cost then
      local refuses = left + limit.open < cost
      wait, offends = refuses and limit.ends - now or 50000 + at - now, offends or refuses
    end
    left = math.max(0, left)
    if wait > retry or wait == retry and left < remaining then
      limit_index, retry, remaining = i - 1, wait, left
      reset = limit.used + limit.open > 0 and limit.ends - now or 0
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
    local limit, more = limits[i], again == 1 and 0 or actual
    if limit.used + limit.open > 0 and limit.begun <= time and time < limit.ends then
      -- Of a window that counts: the difference.
      more = 0
      if by_count == 0 or limit.open >= cost then
        limit.open, limit.used = limit.open - by_count * cost, limit.used + by_count * cost
        local back = math.min(limit.used, math.max(0, cost - actual))
        limit.used, charged = limit.used - back, charged or by_count == 1 or back > 0
        more, admitted = math.max(0, actual - cost), 1
      end
    end
    local charge = math.max(0, math.min(more, 2 * limit.max - limit.used - limit.open))
    limit.used, charged, retry = limit.used + charge, charged or charge > 0, math.max(retry, more - charge)
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
    lives = limit.used + limit.open > 0 and math.max(lives, limit.ends) or lives
    if charged then
      numbers[3 * i - 1], numbers[3 * i], numbers[3 * i + 1] = limit.begun, limit.ends, limit.used
      numbers[plain + i] = limit.open
    end
    is_open = is_open or numbers[plain + i] > 0
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
