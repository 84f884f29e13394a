-- An exact sliding window of calls that all weigh 1, as a sorted set anyone can read.
--
-- Each admission is a member. Its score is its time in microseconds; the member is an integer that is unique and
-- ascending: the time, or one more than the last. It is the ticket. (A call of cost c is c members.)
-- The member `ban` has the end of the ban as its score; while the ban lasts, that is the highest.

local function zset(key, request)
  local mode, cost, n, longest = request.mode, request.cost, request.n, request.longest
  if mode == 'block' then
    local left = call('PTTL', key)
    call('ZADD', key, digits(now + request.ban), 'ban')
    expire(key, math.max(left * 1000, request.ban))
    return { 1 }
  end

  local ban, banned = 0, 0 -- until when, and whether there is such a member
  local newest = call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
  if newest[1] == 'ban' then
    ban, banned = tonumber(newest[2]), 1
    newest = call('ZREVRANGE', key, 1, 1, 'WITHSCORES')
  end
  if mode == 'unblock' then
    if call('ZREM', key, 'ban') == 1 and call('PTTL', key) > lasting_millis(longest) then
      expire(key, longest)
    end
    return { ban > now and 1 or 0 }
  end
  local last, ticket = tonumber(newest[2]), tonumber(newest[1])
  if newest[1] and not ticket then
    return redis.error_reply('WRONGTYPE the key does not hold a rate limiter log')
  end

  if last and last > now and banned == 0 then
    -- The clock stepped back, perhaps by more than a ban lasts: then it is not the highest.
    ban = tonumber(call('ZSCORE', key, 'ban')) or 0
    banned = ban > 0 and 1 or 0
  end

  -- A clock that has stepped back is read as standing still, so that nothing is admitted twice.
  local at = now
  local life = math.huge
  if last and last > now then
    at = last
    life = life_of(key, math.max(longest, request.ban, ban - now))
  end

  if mode == 'refund' then
    local score = tonumber(call('ZSCORE', key, digits(request.ticket)))
    if not score or score + longest <= at then
      return { 0 }
    end
    for entry = request.ticket, request.ticket + cost - 1 do
      if call('ZREM', key, digits(entry)) == 0 then
        break
      end
    end
    return { 1 }
  end

  local logged = 0
  if last and last + longest > at then
    logged = call('ZCARD', key) - banned
  end
  local wait, left, reset = {}, {}, {}
  local refused = false
  local expired = 0
  for i = 1, n do
    local max, window = request.max[i], request.window[i]
    -- If the log is long enough to refuse, the entry that would have to leave tells whether it does.
    local over = logged + cost - max
    local frees = false
    if over > 0 and logged > 0 then
      local rank = math.min(over, logged) - 1
      frees = tonumber(call('ZRANGE', key, rank, rank, 'WITHSCORES')[2])
    end
    local live = max
    if not frees or frees + window <= at or cost > 1 then
      live = logged == 0 and 0 or call('ZCOUNT', key, '(' .. digits(at - window), '+inf')
      if ban > at - window and logged > 0 then
        live = live - banned
      end
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

  if refused then
    if mode == 'acquire' and request.ban > 0 and ban <= now then
      ban = now + request.ban
      call('ZADD', key, digits(ban), 'ban')
      expire(key, math.max(request.ban, last + longest - now))
      life = math.huge
    end
    return verdict(wait, left, reset, at, ban, life, 0)
  end
  if mode == 'peek' or ban > now or cost == 0 then
    return verdict(wait, left, reset, at, ban, life, 0)
  end

  local first = at
  if ticket and ticket >= at then
    first = ticket + 1
  end
  if logged == 0 and (last or banned == 1) then
    -- All of it has expired.
    call('UNLINK', key)
  elseif banned == 1 then
    call('ZREM', key, 'ban')
  end
  -- The insertion comes before the trimming, because only a script's first write is refused for lack of memory.
  local score = digits(at)
  for from = 0, cost - 1, 1000 do
    local entries = {}
    for offset = from, math.min(from + 1000, cost) - 1 do
      entries[#entries + 1] = score
      entries[#entries + 1] = digits(first + offset)
    end
    call('ZADD', key, unpack(entries))
  end
  if expired > 0 then
    -- A bounded piece of work per call, yet never less than what was added.
    call('ZREMRANGEBYRANK', key, 0, math.min(expired, math.max(64, cost)) - 1)
  end
  expire(key, longest)
  for i = 1, n do
    left[i] = left[i] - cost
    reset[i] = at + request.window[i] - at
  end
  return verdict(wait, left, reset, at, 0, math.huge, first)
end
