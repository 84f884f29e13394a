-- Assembled of other files, which are those to edit, by assembly.rs.
local READS, WINDOWS = false, 1
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
