-- What both counters with windows do where the question is not the common one. Before it stands the
-- file of one of them, which has said:
--   holds      what the key holds
--   opens      how many numbers of what is open by `count` a limit has
--   brought    a limit at a time, by its three numbers and what is open. `used` of it counts; what is
--              used and open in its window, from `start` on, does until `ends`, and what is `previous`
--              and open `before` until half of that time
--   second, third   which of it are its second and third number; the first is `start`
--   frees      when a limit that refuses a call would admit it, if what is open were released;
--              false: at once
--   window_of  the sums of the window that a ticket is of: what is used, and what is open
--   used       how much of a limit counts after a change
--
-- What the key holds. One that was read with others may be of another type.
if not state and not is_read then
  state = call('GET', key)
end
local plain, size, numbers = 3 * count + 1, (3 + opens) * count + 4, {}
local sound = not state or #state == 8 * plain or #state == 8 * size
for i = 1, size do
  local number = state and 8 * i <= #state and struct.unpack('<d', state, 8 * i - 7) or 0
  sound, numbers[i] = sound and number >= 0 and number < 2 ^ 53 and number % 1 == 0, number
end
if not sound then
  error('WRONGTYPE the key does not hold ' .. holds .. ' of these limits', 0)
end
local newest, ends, strikes, remembered = numbers[1], unpack(numbers, size - 2)

-- The limits at this time, which stands still at the newest write as long as anything counts.
local at, limits = math.max(now, newest), {}
for i = 1, count do
  local this, following
  if i > 1 then
    max, window, rest = struct.unpack('<dd', question, rest)
  end
  if window < 0 then
    this, following, rest = struct.unpack('<dd', question, rest)
  end
  local last = plain + opens * i
  limits[i] = brought(at, now, max, window, this, following, numbers[3 * i - 1], numbers[3 * i], numbers[3 * i + 1],
    numbers[last + 1 - opens], numbers[last])
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
    local left = limits[i].max - limits[i].used
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
    local left = limit.max - limit.used - units
    if admitted < callers and left < cost then
      local free = frees(limit, cost, at)
      wait, offends = (free or 50000 + at) - now, offends or free
    end
    left = math.max(0, left)
    if wait > retry or wait == retry and left < remaining then
      limit_index, retry, remaining = i - 1, wait, left
      local over = limit.current + limit.open > 0 and limit.ends or (limit.start + limit.ends) / 2
      reset = limit.used + units > 0 and over - now or 0
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
    local sum, open = window_of(limit, time)
    if sum and limit.used > 0 then
      -- Of a window that counts: the difference.
      more = 0
      if by_count == 0 or limit[open] >= cost then
        limit[open], limit[sum] = limit[open] - by_count * cost, limit[sum] + by_count * cost
        local back = math.min(limit[sum], math.max(0, cost - actual))
        limit[sum], charged = limit[sum] - back, charged or by_count == 1 or back > 0
        more, admitted = math.max(0, actual - cost), 1
      end
    end
    local charge = math.max(0, math.min(more, 2 * limit.max - used(limit, at)))
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
    if limit.current + limit.open > 0 then
      lives = math.max(lives, limit.ends)
    elseif limit.previous + limit.before > 0 then
      lives = math.max(lives, (limit.start + limit.ends) / 2)
    end
    local last = plain + opens * i
    if charged then
      numbers[3 * i - 1], numbers[3 * i], numbers[3 * i + 1] = limit.start, limit[second], limit[third]
      -- Where there is one number, it is that of this window.
      numbers[last] = limit.before
      numbers[last + 1 - opens] = limit.open
    end
    is_open = is_open or numbers[last] > 0 or numbers[last + 1 - opens] > 0
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
