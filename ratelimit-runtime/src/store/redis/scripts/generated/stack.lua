-- Assembled of other files, which are those to edit, by assembly.rs.
-- What the script of stacks begins with: several questions on keys of one server, which are charged
-- all or none. Behind it stands the file of each algorithm as `algorithms[n] = function(...)`, with
-- the parameters of `decide` in head.lua.
--
-- KEYS     one of each question; a key may stand here twice
-- ARGV[1]  the call's number, and the caller's clock, as in head.lua
-- ARGV[2]  and further: a byte, the number of the algorithm, and the question
local number, now = struct.unpack('<I4d', ARGV[1])
local base, call = now - 1000000.5, redis.call
if now == 0 then
  local time = call('TIME')
  now, base = time[1] * 1000000 + time[2], 0
end
local algorithms = {}
algorithms[1] = function(key, callers, state, call, now, base, shared,
  question, operation, cost, count, shortest, longest, max, window, rest)
-- The exact sliding window: a sorted set with one member for each unit of cost. Each unit has a
-- microsecond of its own, its ticket: the time of its admission, or one more than the newest where
-- that is not past. So a ticket is unique and never before its time.
--   score  t           member  t           charged
--   score  t           member  t .. 'e'    charged, the last unit of an open estimate
--   score  -t          member  t           reserved by `count`, open
--   score  5e15 + end  member  meta:<newest ticket, in 16 digits>:<strikes>:<remembered>
-- A unit counts in a window while its ticket is above now - window: scores above now - window, and
-- below -(now - window). All between those has lapsed.
-- The meta member says when a block ends, how many strikes there are, and for how long they are
-- remembered after it. It stands while there is a block, a strike or a unit reserved by `count`,
-- lapsed or not; and where units were removed, until the clock has passed the newest ticket, so
-- that no ticket is given twice.
-- Units taken ahead by `grant` are charged as others are, dated at the end of their lease: what is
-- spent until then counts for a whole window from then on.
-- A first unit under one limit lives for one window. All else lives until the second window of the
-- clock after it begins, so what comes in the same window of the clock need not prolong it.
-- A lone number: what remains, where the only unit has the time of the call as its ticket.

local fmt, units, write = string.format, callers * cost, nil
if units > 1 or operation ~= 'acquire' then
  -- Adds units with this sign as their scores', or removes them where that is nil.
  write = function(first, units, sign)
    for from = first, first + units - 1, 1000 do
      local members, n = {}, 0
      for ticket = from, math.min(first + units, from + 1000) - 1 do
        local text = fmt('%d', ticket)
        if sign then
          n = n + 1
          members[n] = sign == '' and text or sign .. text
        end
        n = n + 1
        members[n] = text
      end
      call(sign and 'ZADD' or 'ZREM', key, unpack(members))
    end
  end
end

-- The common question: one limit, no meta member, and the newest unit is not marked. That is a
-- member of 16 digits since the year 2001; all else, of another's set too, is looked at below.
if operation == 'acquire' and count == 1 and units > 0 then
  local entries = call('ZRANGE', key, max < 8 and '-8' or '-1', '-1')
  local used, now_text = #entries, shared and shared.now or fmt('%d', now)
  if used == 0 and units == 1 then
    call('ZADD', key, now_text, now_text)
    local expiry = shared and shared.expiry or fmt('%d', (now - base + window) / 1000 + 1)
    call(base == 0 and 'PEXPIREAT' or 'PEXPIRE', key, expiry)
    return max - 1
  end
  -- One that is no number is an error here. Units taken ahead are dated up to 10 seconds from now;
  -- one that is later should be its own score.
  local newest = used == 0 and 0 or #entries[used] == 16 and entries[used] + 0
  if newest and newest < 2^53
    and (newest < now + 2^24 or tonumber(call('ZSCORE', key, entries[used])) == newest) then
    if used > 0 then
      local live = shared and shared.live or fmt('%d', now - window + 1)
      if max < 8 and now - window >= 1e15 then
        -- These are all that can count. Since the year 2001 their texts are ordered as they are.
        local last = used + 1
        while used > 0 and entries[last - used] < live do used = used - 1 end
      else
        used = call('ZCOUNT', key, live, '+inf')
      end
    end
    local admitted, first = callers, newest < now and now or newest + 1
    if used + units > max then
      admitted = math.max(0, math.floor((max - used) / cost))
      units = admitted * cost
    end
    if admitted == callers or shortest == 0 then
      if units > 0 then
        local ticket = first == now and now_text or fmt('%d', first)
        if units > 1 then write(first, units, '') else call('ZADD', key, ticket, ticket) end
        local last = first + units - 1
        local begins = last - last % window
        if used <= 1 or newest < begins then
          call(base == 0 and 'PEXPIREAT' or 'PEXPIRE', key, fmt('%d', (begins + 2 * window - base) / 1000 + 1))
        end
        -- One admission in seventeen removes what has lapsed: by the ticket before it, as a call
        -- may be about many keys; a prime, as a caller's clock may know only milliseconds.
        if (newest + #key) % 17 == 0 then
          local lapsed = call('ZCARD', key) - used - units
          if lapsed > 0 then call('ZREMRANGEBYRANK', key, '0', fmt('%d', math.min(lapsed, 1000 + 16 * units) - 1)) end
        end
        if admitted == callers and units == 1 and first == now then return max - used - 1 end
        newest = last
      end
      local retry = 0
      if admitted < callers then
        local leaves = units == 0 and entries[#entries + cost - max]
        if not leaves then
          local rank = fmt('%d', cost - max - 1)
          leaves = call('ZRANGE', key, rank, rank)[1]
        end
        retry = string.match(leaves, '^%d+') + window - now
      end
      local remaining, reset = math.max(0, max - used - units), newest + window - now
      return struct.pack('<HBddddd', admitted, 0, remaining, retry, reset, first, 0)
    end
  end
  units = callers * cost
end

-- Everything else: what is asked, and what the key says beside its units.
local limits, horizon, briefest = {}, window, window
for i = 1, count do
  if i > 1 then max, window, rest = struct.unpack('<dd', question, rest) end
  limits[i] = { max = max, window = window }
  horizon, briefest = math.max(horizon, window), math.min(briefest, window)
end
local newest, live, ends, strikes, remembered, meta = 0, 0, 0, 0, 0, nil
local top = call('ZRANGE', key, '-2', '-1', 'WITHSCORES')
for i = 1, #top, 2 do
  local ticket, offences, after = string.match(top[i], '^meta:(%d+):(%d+):(%d+)$')
  if ticket then
    meta, newest, ends = top[i], tonumber(ticket), top[i + 1] - 5e15
    strikes, remembered = tonumber(offences), tonumber(after)
  else
    live = tonumber(string.match(top[i], '^(%d+)e?$'))
    if live ~= math.abs(top[i + 1]) or live >= 2^53 then
      error('WRONGTYPE the key does not hold a log', 0)
    end
  end
end
if meta then
  local reserved = string.match(call('ZRANGE', key, '0', '0')[1], '^%d+')
  live = math.max(live, tonumber(reserved) or 0)
end
newest = math.max(newest, live)
local before, first, blocked = newest, math.max(now, newest + 1), ends > now
if strikes > 0 then
  local grows = longest > 0 and operation ~= 'refund' and operation ~= 'settle'
  local after = grows and math.min(longest, remembered) or remembered
  strikes = now < ends + after and strikes or 0
end

-- What goes: `extra` is to be charged anew, up to twice each `max`, and `dropped` if it is not.
local charges = operation == 'acquire' or operation == 'reserve' or operation == 'estimate'
local decides = charges or operation == 'peek' or operation == 'offend' or operation == 'grant'
local ahead, lease = 0, 0
local removed, removed_last, extra, dropped, kept, last = false, true, 0, 0, 0, 0
if operation == 'refund' then
  local ticket = struct.unpack('<d', question, rest)
  local gone = call('ZRANGEBYSCORE', key, fmt('%d', math.max(ticket, now - horizon + 1)), fmt('%d', ticket + cost - 1))
  removed = #gone > 0 and not string.find(table.concat(gone), 'e', 1, true)
  if removed then call('ZREM', key, unpack(gone)) end
  removed_last = ticket + cost > newest
elseif operation == 'settle' then
  local ticket, actual, by_count, again = struct.unpack('<dddd', question, rest)
  local counted = math.min(actual, 1000)
  last = ticket + cost - 1
  if last + horizon <= now then
    -- It may have been trimmed.
    if again == 0 then extra, dropped = counted, actual end
  else
    local mark = fmt(by_count == 1 and '%d' or '%de', last)
    local score = tonumber(call('ZSCORE', key, mark) or 0)
    if by_count == 1 and score < 0 or by_count == 0 and score > 0 then
      -- One unit counts for all windows: where they have left one of them, they begin anew in all.
      -- Those that it has no room for stay where they still count.
      local stay = last + briefest <= now and 0 or math.min(counted, cost)
      call('ZREM', key, mark)
      write(ticket + stay, cost - stay, nil)
      if by_count == 1 then write(ticket, stay, '') elseif stay == cost then write(last, 1, '') end
      removed, extra, dropped = true, counted - stay, actual - stay
      kept = math.min(counted, cost) - stay
    end
  end
elseif not decides and operation ~= 'block' and operation ~= 'unblock' then
  error('unknown operation ' .. operation, 0)
end

-- What is used of each limit, and what of it is open by `count`.
local card, open, lapsed = call('ZCARD', key) - (meta and 1 or 0), 0, 1 / 0
for i = 1, count do
  local limit = limits[i]
  local edge = math.max(0, now - limit.window)
  local from = fmt('%d', -edge)
  local over = call('ZCOUNT', key, from, fmt('%d', edge))
  limit.used, limit.open = card - over, meta and call('ZCOUNT', key, '-inf', '(' .. from) or 0
  open, lapsed = math.max(open, limit.open), math.min(lapsed, over)
end

-- What is added.
local admitted, added = removed and 1 or 0, 0
if decides then
  admitted = blocked and 0 or callers
  for i = 1, count do
    local left = limits[i].max - limits[i].used
    -- A cost of 0 is admitted where the limit is not exceeded.
    admitted = math.max(0, math.min(admitted, cost > 0 and math.floor(left / cost) or left < 0 and 0 or callers))
  end
  if charges then added = admitted * cost end
  if operation == 'grant' then
    -- The cost is what is wanted: up to a quarter of what is left, if that is worth a lease.
    local left = 1 / 0
    lease = struct.unpack('<d', question, rest)
    for i = 1, count do left = math.min(left, limits[i].max - limits[i].used) end
    ahead = math.min(cost, math.floor(left / 4))
    if blocked or left < 32 or ahead < 8 then ahead = 0 end
    admitted, added, first = callers, ahead, math.max(now + lease, newest + 1)
  end
  if added > 0 and operation == 'estimate' then
    for mark = first + cost - 1, first + added - 1, cost do
      write(mark - cost + 1, cost - 1, '')
      call('ZADD', key, fmt('%d', mark), fmt('%de', mark))
    end
  elseif added > 1 or operation == 'reserve' then
    write(first, added, operation == 'reserve' and '-' or '')
  elseif added == 1 then
    call('ZADD', key, fmt('%d', first), fmt('%d', first))
  end
elseif operation == 'settle' then
  for i = 1, count do extra = math.max(0, math.min(extra, 2 * limits[i].max - limits[i].used)) end
  write(first, extra, '')
  kept = math.max(0, kept - extra)
  write(last - kept + 1, kept, '')
  card, added, dropped = card + kept, extra, dropped - extra - kept
end
if added > 0 then
  newest = first + added - 1
  live = newest
  for i = 1, count do
    limits[i].used = limits[i].used + added
    if operation == 'reserve' then limits[i].open = limits[i].open + added end
  end
  if operation == 'reserve' then open = open + added end
end

-- What is left, and when the next caller would be admitted: the limit decides that waits longest,
-- of equal ones the one that has the least left.
local refused, decisive, retry, remaining, least, only_open = decides and admitted < callers, 1, 0, 1 / 0, 1 / 0, true
for i = 1, count do
  local limit = limits[i]
  local left, wait = limit.max - limit.used, 0
  if refused and left < cost then
    wait = 50000
    if left + limit.open < cost then
      only_open = false
      local leaves = fmt('%d', cost - limit.max - (meta and 2 or 1))
      leaves = string.match(call('ZRANGE', key, leaves, leaves)[1], '^%d+')
      wait = leaves + limit.window - now
    end
  end
  left = math.max(0, left)
  if wait > retry or wait == retry and left < remaining then decisive, retry, remaining = i, wait, left end
  least = math.min(least, left)
end

-- What becomes of the block and the strikes.
local changed = added > 0 or removed
if operation == 'block' then
  ends, changed = now + struct.unpack('<d', question, rest), true
  if longest > 0 then remembered = longest end
elseif operation == 'unblock' then
  ends, strikes, changed, admitted = 0, 0, meta, blocked and 1 or 0
elseif refused and operation ~= 'peek' and not blocked and not only_open and shortest > 0 then
  ends, changed = now + shortest, true
  if longest > 0 then
    ends = now + math.min(longest, shortest * 2 ^ math.min(strikes, 60))
    strikes, remembered = strikes + 1, longest
  end
end

if changed then
  if strikes == 0 and ends <= now then
    -- What is over is written off, so that no clock that steps back revives it.
    ends, remembered = 0, 0
  end
  if decides and lapsed > (meta and 0 or 16) then
    call('ZREMRANGEBYRANK', key, fmt('%d', open), fmt('%d', open + math.min(lapsed, 1000 + 16 * added) - 1))
  end
  if meta and open == 0 then open = call('ZCOUNT', key, '-inf', '(0') end
  local member
  if open > 0 or strikes > 0 or ends > now
    or added == 0 and (meta or removed and removed_last) and newest >= now then
    member = fmt('meta:%016d:%d:%d', newest, strikes, remembered)
    call('ZADD', key, fmt('%d', 5e15 + ends), member)
  end
  if meta and meta ~= member then call('ZREM', key, meta) end
  local latest = math.max(now, newest)
  local begins = latest - latest % horizon
  if not decides or meta or member or card <= 1 or before < begins then
    local needed = card + added > 0 and begins + 2 * horizon or newest
    if strikes > 0 then needed = math.max(needed, ends + remembered) end
    call(base == 0 and 'PEXPIREAT' or 'PEXPIRE', key, fmt('%d', (math.max(needed, ends) - base) / 1000 + 1))
  end
end

local reset = math.max(0, live + limits[decisive].window - now)
if admitted > 0 then remaining = least end
if refused and ends > now then
  retry = math.max(retry, ends - now)
  if admitted == 0 then remaining, reset = 0, math.max(reset, ends - now) end
end
if operation == 'settle' then retry = dropped end
if operation == 'grant' then admitted, remaining, retry = ahead, remaining + ahead, lease end
first, ends = added > 0 and first or 0, ends > now and ends or 0
return struct.pack('<HBddddd', admitted, decisive - 1, remaining, retry, reset, first, ends)
end
algorithms[3] = function(key, callers, state, call, now, base, shared,
  question, operation, cost, count, shortest, longest, max, window, rest)
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
algorithms[2] = function(key, callers, state, call, now, base, shared,
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
algorithms[4] = function(key, callers, state, call, now, base, shared,
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
algorithms[15] = function(key, callers, state, call, now, base, shared,
  question, operation, cost, count, shortest, longest, max, window, rest)
-- Permits of calls in flight, in the place of an algorithm. The key is a sorted set with a member
-- for each permit, whose score is when its lease ends, in microseconds:
--   <16 hexadecimal digits of the process>.<number of the permit>.<lease in milliseconds>
--
-- Of a question, `max` is how many calls may be in flight, and `window` the lease of the permit
-- that asks. At `rest` stand two bytes, how many permits follow, and each with its length, a byte.
-- The first is the permit that is asked about; the others are released before anything else,
-- whatever comes of it.
--
-- acquire_permit   acquires the permit, if one is free
-- peek             says whether one is
-- release_permit   1 if it was held
-- renew            prolongs the lease; one that has ended is begun anew, if a permit is free
--
-- Of the answer, `remaining` is how many calls are in flight (0 of a release); the ticket is 1 of a
-- permit that is held, 2 if it was acquired anew by renewing.
local fmt = string.format
local permits, at = struct.unpack('<H', question, rest)
local permit, releases
permit, at = struct.unpack('Bc0', question, at)
if permits > 1 then
  releases = {}
  for i = 1, permits - 1 do
    releases[i], at = struct.unpack('Bc0', question, at)
  end
  call('ZREM', key, unpack(releases))
end
if operation == 'release_permit' then
  return struct.pack('<HBddddd', call('ZREM', key, permit), 0, 0, 0, 0, 0, 0)
end
if operation ~= 'acquire_permit' and operation ~= 'renew' and operation ~= 'peek' then
  error('unknown operation ' .. operation)
end

-- What a clock that was set back or another program has left stands last: a lease that ends further
-- off than it lasts is cut, a member that is no permit removed, at most 64 of them a call. Where
-- leases are equal, all before one that is whole are.
local latest, foreign = 0, 0
for _ = 1, 64 do
  local last = call('ZRANGE', key, '-1', '-1', 'WITHSCORES')
  local member, ends = last[1], tonumber(last[2])
  if not member then break end
  local process, lease = string.match(member, '^(%x+)%.%d+%.(%d+)$')
  lease = process and #process == 16 and lease * 1000
  if not lease or lease < 5000000 or lease > 3600000000 then
    call('ZREM', key, member)
    foreign = foreign + 1
  elseif ends > now + lease then
    latest = math.max(latest, now + lease)
    call('ZADD', key, fmt('%d', now + lease), member)
  else
    latest = math.max(latest, ends)
    break
  end
end

-- Permits may stand before them, of no longer leases than there are.
if foreign == 64 then latest = now + 3600000000 end

-- How many are in flight. A call drops at most 64 leases that have ended.
local live = 0
if latest > 0 then
  local lapsed = call('ZCARD', key)
  live = call('ZCOUNT', key, '(' .. fmt('%d', now), '+inf')
  lapsed = lapsed - live
  if lapsed > 0 then
    call('ZREMRANGEBYRANK', key, '0', fmt('%d', math.min(lapsed, 64) - 1))
  end
end

local ticket = operation == 'acquire_permit' and 1 or 0
local is_held = false
if operation == 'renew' then
  is_held = tonumber(call('ZSCORE', key, permit) or 0) > now
  ticket = is_held and 1 or 2
end
if not is_held and live >= max then
  return struct.pack('<HBddddd', 0, 0, live, 0, 0, 0, 0)
end
if operation ~= 'peek' then
  local ends = now + window
  call('ZADD', key, fmt('%d', ends), permit)
  call(base == 0 and 'PEXPIREAT' or 'PEXPIRE', key, fmt('%d', (math.max(latest, ends) - base) / 1000 + 1))
  if not is_held then live = live + 1 end
end
return struct.pack('<HBddddd', 1, 0, live, 0, 0, ticket, 0)
end
-- What the script of stacks ends with. The reply, packed as in tail.lua: the call's number, its time,
-- 1 if all questions are charged and 0 if none is, and an answer to each: of the charge; where none is charged of a
-- look, of a refusal that set a block, or an error.
--
-- `states`: what keys hold, as far as it is known; false: nothing. `ahead`: what is asked of a
-- question's key before it; `sums`: what all that were looked at ask of a key.
local last, answers, states, ahead, sums = #KEYS, {}, {}, {}, {}

-- Asks a question, or something else of what it is about, and keeps the answer. Returns whether it
-- admits, nil of an error; its operation; the ticket; and whether a refusal sets a block.
local function ask(i, name, extra)
  local key, question = KEYS[i], ARGV[i + 1]
  local algorithm, operation, cost, count, shortest, longest, max, window, rest =
    struct.unpack('<BBc0dBdddd', question)
  if name == 'peek' or name == 'offend' then
    -- A key that stands here twice has to have room for both.
    cost = cost + (ahead[i] or 0)
    sums[key] = cost
  end
  local ok, answer, state = pcall(algorithms[algorithm], key, 1, states[key], redis.call, now, base, nil,
    extra and question .. extra or question, name or operation, cost, count, shortest, longest, max, window, rest)
  if not ok then
    -- An error of Redis is a table, up to 6.2 a text that begins with its place in the script.
    answer = type(answer) == 'table' and answer.err or answer
    states[key], answers[i] = nil, { string.find(answer, '^%u+ ') and answer or 'ERR ' .. answer }
    return nil, operation
  end
  states[key], answers[i] = state, answer
  if type(answer) == 'number' or #answer == 16 then
    return true, operation, now
  end
  local ticket = struct.unpack('<d', answer, 28)
  return struct.unpack('<H', answer) > 0, operation, ticket, shortest > 0
end

-- The last question is charged where all others admit, and looks for itself, unless its key stands
-- here twice.
local refusing, offender, looked = {}, nil, 0
for i = 1, last do
  ahead[i] = sums[KEYS[i]]
  if i < last or ahead[i] then
    local admits, _, _, blocks = ask(i, 'peek')
    looked = i
    if not admits then
      refusing[KEYS[i]], offender = true, blocks and i
    end
  end
end
local refused = next(refusing)
local all = not refused
if all then
  local operations, tickets, from = {}, {}, looked == last and 1 or 0
  for turn = from, looked do
    local i = turn == 0 and last or turn
    all, operations[i], tickets[i] = ask(i)
    if not all then
      -- It is of another type, or went otherwise than it looked: the charges before are taken back.
      for before = turn - 1, from, -1 do
        local i = before == 0 and last or before
        if operations[i] == 'acquire_permit' then
          ask(i, 'release_permit')
        elseif operations[i] == 'acquire' then
          ask(i, 'refund', struct.pack('<d', tickets[i]))
        else
          ask(i, 'settle', struct.pack('<dddd', tickets[i], 0, operations[i] == 'reserve' and 1 or 0, 0))
        end
        ask(i, 'peek')
      end
      break
    end
  end
else
  local admits = looked == last or ask(last, 'peek')
  -- But for one key alone the call would have run: that is blocked. Of several that refuse none is,
  -- so that nobody blocks another's key by calls that his own limit refuses.
  if admits and offender and not next(refusing, refused) then
    ask(offender, 'offend')
  end
end
local reply = { number, now, all and 1 or 0 }
for i = 1, last do
  reply[i + 3] = answers[i]
end
return cmsgpack.pack(reply)
