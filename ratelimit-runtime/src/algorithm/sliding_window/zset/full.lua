-- An exact sliding window of calls that weigh 1, as a sorted set that can be read with `ZRANGE`.
--
-- Each admission is a member. Its score is its time in microseconds; the member is its ticket,
-- sixteen digits that are unique and ascending: the time, or one more than the last. (A call of
-- cost c is c members.)
--
-- One more member may stand above them,
-- `meta:<how long the block was given>:<the newest ticket>:<blocks in a row>`, of sixteen, sixteen
-- and four digits, with a score of 5,000,000,000,000,000 and the end of the block, or 0. It is
-- there while there is a block, or strikes are remembered, the newest entry has been refunded (its
-- ticket is never given again), or the clock is behind the newest entry. An admission after that
-- ends it.
--
-- The first admission of a key lets it live for a window. Every later one makes sure that it lives
-- to the end of the cell after that of its newest ticket: cells are as long as the longest window,
-- from 1970 on. By a client's clock it writes that each time, and with `meta` its exact expiry.

local META = 5000000000000000
local WRONG_LOG = failed('WRONGTYPE the key does not hold a rate limiter log')

-- Time and ticket of an entry; nothing if it is something else.
local function zset_entry(member, score)
  local time, ticket = tonumber(score), tonumber(member)
  if #member == 16 and not string.find(member, '%D') and time and time >= 0 and time <= ticket and time % 1 == 0 then
    return time, ticket
  end
end

-- How long the block was given, the newest ticket, when the block ends, and how many there were in
-- a row; nothing if it is something else.
local function zset_meta(member, score)
  local given, ticket, strikes = string.match(member, '^meta:(%d+):(%d+):(%d+)$')
  local ends = tonumber(score)
  if given and #member == 43 and #given == 16 and #ticket == 16 and ends and ends >= META and ends < 2 * META then
    return tonumber(given), tonumber(ticket), ends - META, tonumber(strikes)
  end
end

local function zset(key, request)
  local operation, cost, n, longest = request.operation, request.cost, request.n, request.longest
  local wrong_type, entry = WRONG_LOG, zset_entry

  local function name(ticket)
    return string.format('%016.0f', ticket)
  end

  local meta, blocked_until, block, remembered, strikes = nil, 0, 0, 0, 0
  local top = call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
  if top[1] and string.sub(top[1], 1, 5) == 'meta:' then
    meta = top[1]
    block, remembered, blocked_until, strikes = zset_meta(top[1], top[2])
    if not block then
      return wrong_type
    end
    top = call('ZREVRANGE', key, 1, 1, 'WITHSCORES')
  end
  local last, ticket
  if top[1] then
    last, ticket = entry(top[1], top[2])
    if not last then
      return wrong_type
    end
  end

  -- The end of the cell after that of a ticket.
  local function cell_end(ticket)
    return ticket - ticket % longest + 2 * longest
  end

  local function note(new_until, new_block, new_ticket, new_strikes)
    local new = 'meta:' .. name(new_block) .. ':' .. name(new_ticket) .. string.format(':%04d', math.min(new_strikes, 9999))
    call('ZADD', key, digits(META + new_until), new)
    if meta and meta ~= new then
      call('ZREM', key, meta)
    end
    meta, blocked_until, block, remembered, strikes = new, new_until, new_block, new_ticket, new_strikes
  end

  -- A clock that has stepped back is read as standing still, so that nothing is admitted twice.
  local at = now
  local life = math.huge
  local blocked_for = left_of_block(blocked_until, block)
  if blocked_until - now > blocked_for then
    note(now + block, block, remembered, strikes)
  elseif forgets_strikes(request, blocked_until) then
    blocked_until, block, strikes = 0, 0, 0
  end
  -- How long a block, and what is remembered of it, goes on.
  local function rest_of_block()
    return blocked_until + (strikes > 0 and request.longest_block or 0) - now
  end
  if last and last > now then
    at = last
    local is_cut
    life, is_cut = life_of(key, math.max(longest, rest_of_block()))
    if is_cut and not meta then
      -- What the cells promise does not hold any more.
      note(0, 0, 0, 0)
    end
  end

  if operation == 'block' then
    local rest = call('PTTL', key)
    note(now + request.block, request.block, remembered, strikes)
    expire(key, math.max(rest * 1000, rest_of_block()))
    return { 1 }
  end
  if operation == 'unblock' then
    if blocked_until == 0 and strikes == 0 then
      return { 0 }
    end
    if remembered > 0 or at > now then
      note(0, 0, remembered, 0)
    else
      call('ZREM', key, meta)
      meta = nil
    end
    if ticket and not meta then
      expire(key, cell_end(ticket) - now)
    elseif call('PTTL', key) > lasting_millis(longest) then
      expire(key, longest)
    end
    return { blocked_for > 0 and 1 or 0 }
  end

  if operation == 'refund' then
    local score = call('ZSCORE', key, name(request.ticket))
    if not score then
      return { 0 }
    end
    local time = entry(name(request.ticket), score)
    if not time then
      return wrong_type
    elseif time + longest <= at then
      return { 0 }
    end
    if ticket and ticket < request.ticket + cost then
      -- First, because a set without members loses its expiry.
      note(blocked_until, block, math.max(remembered, ticket), strikes)
    end
    for refunded = request.ticket, request.ticket + cost - 1 do
      if call('ZREM', key, name(refunded)) == 0 then
        break
      end
    end
    return { 1 }
  end
  if operation ~= 'acquire' and operation ~= 'peek' then
    return unknown(request)
  end

  local beside = meta and 1 or 0
  local logged = 0
  if last and last + longest > at then
    logged = call('ZCARD', key) - beside
  end
  local wait, left, reset = {}, {}, {}
  local refused = false
  local expired = 0
  for i = 1, n do
    local max, window = request.max[i], request.window[i]
    -- If the log is long enough to refuse, the entry that would have to leave tells whether it
    -- does.
    local over = logged + cost - max
    local frees = false
    if over > 0 and logged > 0 then
      local rank = math.min(over, logged) - 1
      local leaves = call('ZRANGE', key, rank, rank, 'WITHSCORES')
      frees = entry(leaves[1], leaves[2])
      if not frees then
        return wrong_type
      end
    end
    local live = max
    if not frees or frees + window <= at or cost > 1 then
      live = logged == 0 and 0 or call('ZCOUNT', key, '(' .. digits(at - window), '+inf') - beside
    end
    wait[i], left[i], reset[i] = 0, math.max(max - live, 0), 0
    if frees and frees + window > at then
      wait[i] = frees + window - at
      refused = true
    end
    if window == longest then
      expired = logged - live
    end
    if live > 0 then
      reset[i] = last + window - at
    end
  end

  if refused and operation == 'acquire' and request.block > 0 and blocked_for == 0 then
    blocked_for = block_after(request, strikes)
    note(now + blocked_for, blocked_for, remembered, strikes + 1)
    expire(key, math.max(rest_of_block(), math.min(last + longest - now, longest)))
  end
  if refused or operation == 'peek' or blocked_for > 0 or cost == 0 then
    return verdict(wait, left, reset, at, blocked_for, life, 0)
  end

  local had_meta = meta
  local first = math.max(at, (ticket or 0) + 1, remembered + 1)
  if logged == 0 and (last or meta) then
    -- All of it has expired.
    call('UNLINK', key)
    meta = nil
  end
  -- The insertion comes before the trimming, because only a script's first write is refused for
  -- lack of memory.
  local score = digits(at)
  for from = 0, cost - 1, 1000 do
    local entries = {}
    for offset = from, math.min(from + 1000, cost) - 1 do
      entries[#entries + 1] = score
      entries[#entries + 1] = name(first + offset)
    end
    call('ZADD', key, unpack(entries))
  end
  if at > now or strikes > 0 then
    -- The ordinary path keeps out until its clock is past it.
    note(blocked_until, block, at > now and first + cost - 1 or 0, strikes)
  elseif meta then
    call('ZREM', key, meta)
    meta = nil
  end
  if expired > 0 then
    -- Of a large set a bounded piece of work per call, yet never less than what was added.
    call('ZREMRANGEBYRANK', key, 0, math.min(expired, logged > 256 and math.max(64, cost) or expired) - 1)
  end
  local newest = first + cost - 1
  if meta then
    expire(key, math.max(longest, rest_of_block()))
  elseif logged == 0 and cost == 1 then
    expire(key, longest)
  elseif not time or logged - expired < 2 or had_meta or cell_end(ticket) < cell_end(newest) then
    expire(key, cell_end(newest) - now)
  end
  for i = 1, n do
    left[i] = left[i] - cost
    reset[i] = at + request.window[i] - at
  end
  return verdict(wait, left, reset, at, 0, longest, first)
end
