-- The log as a sorted set, or nothing yet: one limit, a cost of 1, no block, and a clock that goes forward. `full/zset` has
-- the rest, and the format.
repeat
  local ZSET, RING, LARGEST_ZSET = 1, 2, 126
  if not asks or cost > 1 or layout == RING or max > LARGEST_ZSET and layout ~= ZSET then
    break
  end
  local newest = redis.pcall('ZRANGE', key, '-1', '-1', 'WITHSCORES')
  if newest.err then
    break
  end
  local count, ticket = 0, now
  if newest[1] then
    local last = newest[2] + 0
    ticket = tonumber(newest[1])
    if #newest[1] ~= 16 or not ticket or last > now or last > ticket then
      break
    end
    ticket = ticket < now and now or ticket + 1
    if last + window <= now then
      -- All of it has expired.
      call('UNLINK', key)
    else
      count = call('ZCARD', key)
      -- With a full log, the entry that would have to leave tells; with room in it, whether the oldest is gone.
      local rank = count > max and count - max or '0'
      local leaves = call('ZRANGE', key, rank, rank, 'WITHSCORES')
      local frees = leaves[2] + window
      if #leaves[1] ~= 16 then
        break
      end
      if frees <= now then
        if count > 256 then
          break
        end
        count = count - call('ZREMRANGEBYSCORE', key, '-inf', now - window)
      elseif count >= max then
        if block == 0 then
          record, answered = pack(RECORD, 0, 0, calls, 0, frees - now, last + window - now, 0), calls
        end
        break
      end
    end
  end

  local admitted = max - count
  if admitted > calls then
    admitted = calls
  end
  local score = time and time[1] .. string.sub('00000' .. time[2], -6) or string.format('%016.0f', now)
  if admitted == 1 then
    call('ZADD', key, score, ticket == now and score or string.format('%016.0f', ticket))
  else
    local entries = {}
    for i = 1, admitted do
      local entry = ticket + i - 1
      entries[2 * i - 1], entries[2 * i] = score, string.format('%09d%07d', entry / 10000000, entry % 10000000)
    end
    call('ZADD', key, unpack(entries))
  end
  local kept = base + (window < shortest and shortest or window)
  call(EXPIRE, key, (kept - kept % 1000) / 1000)
  record, answered = pack(RECORD, 1, 0, admitted, max - count - admitted, 0, window, ticket), admitted
until true
