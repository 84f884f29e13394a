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
