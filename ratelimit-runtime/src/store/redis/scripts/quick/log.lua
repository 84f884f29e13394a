-- One limit, nothing reserved, no block, and a clock that goes forward, in the layout that the question leads to expect:
-- a sorted set (`quick_zset`), or a ring (`quick_ring`). `full/zset` and `full/ring_log` describe the formats.
local ZSET, RING, LARGEST_ZSET = 1, 2, 126

local function quick_zset(key, newest, calls, block, max, window)
  local count, ticket, last = 0, now, 0
  if newest[1] then
    local member = newest[1]
    last, ticket = newest[2] + 0, tonumber(member)
    if #member ~= 16 or not ticket or last > now or last > ticket then
      return
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
      local frees = leaves[2] + 0
      if #leaves[1] ~= 16 then
        return
      end
      if frees + window <= now then
        if count > 256 then
          return
        end
        count = count - call('ZREMRANGEBYSCORE', key, '-inf', now - window)
      elseif count >= max then
        if block > 0 then
          return
        end
        return pack(RECORD, 0, 0, calls, 0, frees + window - now, last + window - now, 0), calls
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
  call(EXPIRE, key, millis(window))
  return pack(RECORD, 1, 0, admitted, max - count - admitted, 0, window, ticket), admitted
end

local function quick_ring(key, bytes, calls, cost, block, max, window)
  local HEADER, START, SLOT = '<BBBI4I4I4I4ddddddddI4dd', 103, '<I6I2I4'
  local SMALL, BLOCK, RESERVED = 16, 256, 2147483648
  local cap, head, count, refunds, last, ticket, first = 0, 0, 0, 0, 0, 0, 0
  local open, open_reserved, used, skipped = 0, 0, 0, 0
  local in_hand = math.floor((#bytes - START) / 12)
  if bytes ~= '' then
    if #bytes < START then
      return
    end
    local version, wide, limits, newest, blocked_until, reserved, _
    version, wide, limits, cap, head, count, refunds, newest, last, ticket, blocked_until, _, first, open, open_reserved,
      skipped, used, reserved = parse(HEADER, bytes)
    if version ~= 1 or wide ~= 0 or limits ~= 1 or newest > now or blocked_until > 0 or reserved > 0 then
      return
    end
    if last + window <= now then
      -- All of it has expired.
      head, count, refunds, skipped, used, open, open_reserved = 0, 0, 0, 0, 0, 0, 0
    end
  end

  -- What has left the window, up to the entry that frees the next slot.
  local slots, from, to, shift = bytes, 0, in_hand < cap and in_hand or cap, START
  local i, over = skipped, math.huge
  local gone, frees
  while i < count do
    local slot = (head + i) % cap
    if slot < from or slot >= to then
      if i > skipped + BLOCK then
        return
      end
      from = slot
      to = slot + (i > skipped and 64 or 2)
      if to > cap then
        to = cap
      end
      slots, shift = call('GETRANGE', key, START + from * 12, START + to * 12 - 1), 0
    end
    local number, lead, weight = parse(SLOT, slots, shift + (slot - from) * 12 + 1)
    if weight >= RESERVED then
      return
    end
    frees = first + number - lead
    if not gone then
      if frees + window <= now then
        used = used - weight
      else
        gone = i
        over = used + cost - max
        if over <= 0 then
          break
        end
      end
    end
    if gone then
      over = over - weight
      if over <= 0 then
        break
      end
    end
    i = i + 1
  end
  gone = gone or count

  local admitted = math.floor((max - used) / cost)
  if admitted <= 0 then
    if block > 0 or over > 0 then
      return
    end
    return pack(RECORD, 0, 0, calls, max > used and max - used or 0, frees + window - now, last + window - now, 0), calls
  end
  if admitted > calls then
    admitted = calls
  end
  if gone > 0 then
    count, head = count - gone, (head + gone) % cap
  end
  ticket = ticket < now and now or ticket + 1
  if count == 0 then
    first = ticket
  end

  local place, room = (head + count) % cap, SMALL - count
  if count >= SMALL then
    if count * 4 <= cap then
      return
    end
    room = cap - (count < place and place or count)
    if room > BLOCK - place % BLOCK then
      room = BLOCK - place % BLOCK
    end
  end
  if admitted > room then
    admitted = room
  end
  if admitted == 0 or cost >= RESERVED or ticket + admitted - now > 65535 or ticket + admitted - first > 281474976710655 then
    return
  end
  local lead = ticket - now
  local added = pack(SLOT, ticket - first, lead, cost)
  if admitted > 1 then
    local entries = { added }
    for entry = 1, admitted - 1 do
      entries[entry + 1] = pack(SLOT, ticket + entry - first, lead + entry, cost)
    end
    added = table.concat(entries)
  end
  used = used + admitted * cost

  if count < SMALL then
    -- A few entries are written whole.
    if count > 0 then
      if head + count > in_hand then
        return
      end
      added = string.sub(bytes, START + head * 12 + 1, START + (head + count) * 12) .. added
    end
    count = count + admitted
    call('SET', key, pack(HEADER, 1, 0, 1, count, 0, count, refunds, now, now, ticket + admitted - 1, 0, 0, first, open,
      open_reserved, 0, used, 0) .. added, EXPIRY, millis(window))
  else
    call('SETRANGE', key, START + place * 12, added)
    open = open + admitted * cost
    place = place + admitted
    if place % BLOCK == 0 then
      call('SETRANGE', key, START + cap * 12 + (place / BLOCK - 1) * 24, pack('<ddd', now, open, open_reserved))
      open, open_reserved = 0, 0
    end
    call('SETRANGE', key, '0', pack(HEADER, 1, 0, 1, cap, head, count + admitted, refunds, now, now, ticket + admitted - 1,
      0, 0, first, open, open_reserved, 0, used, 0))
    call(EXPIRE, key, millis(window))
  end
  return pack(RECORD, 1, 0, admitted, max - used, 0, window, ticket), admitted
end

local function quick(key, layout, calls, cost, block, max, window)
  if cost == 1 and layout ~= RING and (max <= LARGEST_ZSET or layout == ZSET) then
    local newest = redis.pcall('ZRANGE', key, '-1', '-1', 'WITHSCORES')
    if not newest.err then
      return quick_zset(key, newest, calls, block, max, window)
    end
  end
  local bytes = redis.pcall('GETRANGE', key, '0', '294')
  if type(bytes) == 'string' and (bytes ~= '' or layout ~= ZSET) then
    return quick_ring(key, bytes, calls, cost, block, max, window)
  end
end
