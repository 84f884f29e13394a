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
local pack, units, is_read = struct.pack, callers * cost, false
if state == nil then
  state, is_read = call('GET', key), true
end

-- The common question: a charge under one limit, nothing open, no block, a clock that goes forward
-- and stands in this window or in the next, numbers that can be multiplied.
if count == 1 and (operation == 'acquire' or operation == 'estimate') and cost > 0 then
  if not state and units <= max then
    local value = pack('<dddd', now, now, units, 0)
    local expiry = shared and shared.expiry or string.format('%d', (now - base + 2 * window) / 1000 + 1)
    if not call('SET', key, value, 'NX', base == 0 and 'PXAT' or 'PX', expiry) then
      error('WRONGTYPE the key does not hold a sliding counter', 0)
    end
    return max - units, value
  elseif state and #state == 32 then
    local newest, start, current, previous = struct.unpack('<dddd', state)
    local ends = start + window
    if now >= ends and now < ends + window and current > 0 then
      start, ends, current, previous = ends, ends + window, 0, current
    end
    local overlap, weighed, whole = ends - now, previous * (ends - now), 0
    if newest <= now and overlap > 0 and overlap <= window and current >= 0 and previous >= 0
      and current + previous > 0 and (weighed < 2 ^ 52 or previous < 2 ^ 30) then
      if weighed >= 2 ^ 52 then
        -- No longer exact, but the quotient is, to one. What it leaves is, where times stand in halves.
        whole = weighed / window
        whole = whole - whole % 1
        local low, part = overlap % 2 ^ 22, window % 2 ^ 22
        weighed = previous * (overlap - low) - whole * (window - part) + (previous * low - whole * part)
      end
      local left = max - current - whole - (weighed + -weighed % window) / window
      if units <= left then
        current = current + units
        local value = pack('<dddd', now, start, current, previous)
        call('SETRANGE', key, '0', value)
        if current == units then
          -- The first charge of this window, which lives longer than the one before.
          call(base == 0 and 'PEXPIREAT' or 'PEXPIRE', key, string.format('%d', (ends + window - base) / 1000 + 1))
        end
        return pack('<dd', left - units, ends + window - now), value
      elseif left < cost and shortest == 0
        and (current < 2 ^ 30 and previous < 2 ^ 30 or (current + previous) * window < 2 ^ 53) then
        -- What still counts of a window has to sink to what leaves room.
        local room, last, free = max - cost - current, previous, ends
        if room < 0 then
          room, last, free = math.max(0, max - cost), current, ends + window
        end
        local sunk = room * window / last
        sunk = sunk - sunk % 1
        if room * window >= 2 ^ 53 then
          local low, part = window % 2 ^ 22, sunk % 2 ^ 22
          local rest = room * (window - low) - last * (sunk - part) + (room * low - last * part)
          sunk = sunk + (rest - rest % last) / last
        end
        return pack('<HBddddd', 0, 0, left > 0 and left or 0, free - sunk - now,
          (current > 0 and ends + window or ends) - now, 0, 0)
      end
    end
  end
end

-- Everything else is decided by windows.lua and counters.lua, which stand behind this file, with
-- these functions. How much counts of a window of which so much overlaps, rounded up: a product of
-- 2^53 or more is divided by seven bits at a time.
local holds, own, opens, more = 'sliding counters', 3, 2, 0
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
local function brought(at, _, max, window, _, _, numbers, own, opened)
  local start, current, previous = numbers[own], numbers[own + 1], numbers[own + 2]
  local open, before, passed = numbers[opened], numbers[opened + 1], math.floor((at - start) / window)
  if passed == 1 and current + open > 0 then
    start, current, previous, open, before = start + window, 0, current, 0, open
  elseif passed ~= 0 or current + open + previous + before == 0 then
    start, current, previous, open, before = at, 0, 0, 0, 0
  end
  return { capacity = max, start = start, ends = start + 2 * window, current = current, previous = previous, open = open,
    before = before, free = max - current - open - weighed(previous + before, start + window - at, window) }
end
local function lasts(limit)
  return (limit.start + limit.ends) / 2
end
local function ends_at(limit, at, cost)
  local window = (limit.ends - limit.start) / 2
  local free = limit.start + window
  if not cost then
    return limit.current + limit.open > 0 and limit.ends or limit.previous + limit.before > 0 and free
  end
  -- What still counts of a window has to sink to what leaves room.
  local room, last = limit.capacity - cost - limit.current, limit.previous
  if weighed(last, free - at, window) <= room then
    return false
  elseif room < 0 then
    room, last, free = math.max(0, limit.capacity - cost), limit.current, limit.ends
  end
  local overlap = math.min(window, math.floor(room / last * window) + 1)
  while weighed(last, overlap, window) > room do
    overlap = overlap - 1
  end
  return free - overlap
end
local function keep(limit, numbers, own, open)
  numbers[own], numbers[own + 1], numbers[own + 2] = limit.start, limit.current, limit.previous
  numbers[open], numbers[open + 1] = limit.open, limit.before
  return 0
end
local counts, used
if operation == 'refund' or operation == 'settle' then
  function counts(limit, time)
    return 2 * time >= 3 * limit.start - limit.ends
  end
  function used(limit, at)
    local window = (limit.ends - limit.start) / 2
    return weighed(limit.previous + limit.before, limit.start + window - at, window) + limit.current + limit.open
  end
end
