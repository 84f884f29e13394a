-- The log as a sorted set, or nothing yet: a cost of 1, no block, and a clock that goes forward.
-- `full.lua` has the rest, and the format.
repeat
  local ZSET, RING, LARGEST_ZSET = 1, 2, 126
  if not asks or cost > 1 or layout == RING or most > LARGEST_ZSET and layout ~= ZSET then
    break
  end
  local newest = redis.pcall('ZRANGE', key, '-1', '-1', 'WITHSCORES')
  if newest.err then
    break
  end
  local count, ticket, last = 0, now, now
  if newest[1] then
    last = newest[2] + 0
    ticket = newest[1] == newest[2] and last or tonumber(newest[1])
    if #newest[1] ~= 16 or not ticket or last > now or last > ticket then
      break
    end
    ticket = ticket < now and now or ticket + 1
    if last + longest > now then
      count = call('ZCARD', key)
    end
  end

  -- How many calls each limit has room for; else how long it waits. `verdict` in `common.lua` says
  -- which one decides.
  local admitted, stays = calls < 1000 and calls or 1000, 0
  local decides, wait, left, reset = 0, 0, math.huge, 0
  for i = 1, limits do
    if limits > 1 then
      max, window = parse('<dd', question, 32 * i)
    end
    local live, waits = 0, 0
    if count >= max then
      -- The entry that would have to leave tells.
      local rank = count > max and count - max or '0'
      local leaves = call('ZRANGE', key, rank, rank, 'WITHSCORES')
      if #leaves[1] ~= 16 then
        admitted = nil
        break
      end
      waits, live = leaves[2] + window - now, max
    end
    if waits <= 0 and count > 0 then
      waits, live = 0, call('ZCOUNT', key, now - window + 1, '+inf')
    end
    local room = max - live
    if waits > wait or waits == wait and room < left then
      decides, wait, left = i - 1, waits, room
      reset = live > 0 and last + window - now or 0
    end
    if room < admitted then
      admitted = room
    end
    if live > stays then
      stays = live
    end
  end
  if not admitted then
    break
  end
  if admitted == 0 or peeks then
    if peeks or block == 0 then
      record, answered = pack(RECORD, wait == 0 and 1 or 0, decides, calls, left, wait, reset, 0), calls
    end
    break
  end

  if stays < count then
    -- A bounded piece of work per call, yet never less than what is added.
    local expired, most = count - stays, admitted > 64 and admitted or 64
    call('ZREMRANGEBYRANK', key, '0', (expired < most and expired or most) - 1)
  elseif count == 0 and newest[1] then
    call('UNLINK', key)
  end
  local score = time and #time[2] == 6 and time[1] .. time[2] or string.format('%016.0f', now)
  if admitted == 1 then
    call('ZADD', key, score, ticket == now and score or string.format('%016.0f', ticket))
  else
    -- Most differ in the last digit only. The newest comes first, because Redis looks for the place
    -- of each from below.
    local entries, char, tens = {}, string.char, nil
    local last = ticket + admitted - 1
    for i = 1, 2 * admitted, 2 do
      local digit = last % 10
      tens = tens or string.format('%08d%07d', last / 100000000, last / 10 % 10000000)
      entries[i], entries[i + 1] = score, tens .. char(48 + digit)
      tens, last = digit > 0 and tens or nil, last - 1
    end
    call('ZADD', key, unpack(entries))
  end
  local kept = base + (longest < shortest and shortest or longest)
  call(EXPIRE, key, (kept - kept % 1000) / 1000)
  if limits > 1 then
    window = parse('<d', question, 32 * decides + 40)
  end
  record, answered = pack(RECORD, 1, decides, admitted, left - admitted, 0, window, ticket), admitted
until true
