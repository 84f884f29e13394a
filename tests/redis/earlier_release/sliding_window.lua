local call, pack, parse = redis.call, struct.pack, struct.unpack
local work, most_work = 0, 1e9
local QUESTION = '<BBI2dddBddd'
local RECORD = '<BBI2dddd'
local now, time, base, shortest
local EXPIRY, EXPIRE = 'PXAT', 'PEXPIREAT'
if ARGV[1] == '' then
  time = call('TIME')
  now = time[1] * 1000000 + time[2]
  base, shortest = now, 10000
else
  now = tonumber(ARGV[1])
  base, shortest = 999, 1000000
  EXPIRY, EXPIRE = 'PX', 'PEXPIRE'
end
local may_answer, key, question, calls = #KEYS == 1, KEYS[1], ARGV[3], nil
local operation, algorithm, all, cost, block, _, limits, max, window, capacity = parse(QUESTION, question)
local peeks = operation == 3
local asks = may_answer and (operation == 1 or peeks) and cost > 0
local layout = algorithm % 16
algorithm = (algorithm - layout) / 16
local record, answered
calls = calls or all
local longest, most = window, max
for i = 2, limits do
  local other, its = parse('<dd', question, 24 * i + 6)
  longest, most = its > longest and its or longest, other > most and other or most
end
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
  local admitted, stays = calls < 1000 and calls or 1000, 0
  local decides, wait, left, reset = 0, 0, math.huge, 0
  for i = 1, limits do
    if limits > 1 then
      max, window = parse('<dd', question, 24 * i + 6)
    end
    local live, waits = 0, 0
    if count >= max then
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
    local expired, most = count - stays, admitted > 64 and admitted or 64
    call('ZREMRANGEBYRANK', key, '0', (expired < most and expired or most) - 1)
  elseif count == 0 and newest[1] then
    call('UNLINK', key)
  end
  local score = time and #time[2] == 6 and time[1] .. time[2] or string.format('%016.0f', now)
  if admitted == 1 then
    call('ZADD', key, score, ticket == now and score or string.format('%016.0f', ticket))
  else
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
    window = parse('<d', question, 24 * decides + 38)
  end
  record, answered = pack(RECORD, 1, decides, admitted, left - admitted, 0, window, ticket), admitted
until true
repeat
  if not asks or record then
    break
  end
  local ZSET = 1
  local bytes = redis.pcall('GETRANGE', key, '0', limits == 1 and '294' or 274 + 20 * limits)
  if bytes == '' and layout == ZSET or bytes.err then
    break
  end
  local HEADER, VIEW, START, SLOT, SIZE = '<I3I4I4I4I4ddddddddI4dd', '<I4dd', 83 + 20 * limits, '<I6I2I4', 12
  local SMALL, BLOCK, RESERVED = 16, 256, 2147483648
  local FORM = 1 + 65536 * limits
  local cap, head, count, refunds, last, ticket, first = 0, 0, 0, 0, 0, 0, 0
  local open, open_reserved, used, skipped, reserved = 0, 0, 0, 0, 0
  if bytes ~= '' then
    if #bytes < START then
      break
    end
    local form, newest, blocked_until, _
    form, cap, head, count, refunds, newest, last, ticket, blocked_until, _, first, open, open_reserved,
      skipped, used, reserved = parse(HEADER, bytes)
    if form ~= FORM or newest > now or blocked_until > 0 then
      break
    end
    if last + longest <= now then
      head, count, refunds, skipped, used, reserved, open, open_reserved = 0, 0, 0, 0, 0, 0, 0, 0
    end
  end
  local admitted, gone = calls, nil
  local decides, wait, left, span = 0, 0, nil, window
  local views = limits > 1 and {}
  local in_hand = (#bytes - START) / SIZE
  in_hand = in_hand - in_hand % 1
  local slots, from, to, shift = bytes, 0, in_hand < cap and in_hand or cap, START
  for view = 1, limits do
    if view > 1 then
      max, window = parse('<dd', question, 24 * view + 6)
      if count > 0 then
        skipped, used, reserved = parse(VIEW, bytes, 64 + 20 * view)
      end
    end
    local i, over, frees = skipped, 1, 0
    gone = nil
    while i < count and over > 0 do
      local slot = (head + i) % cap
      if slot < from or slot >= to then
        from = slot
        to = slot + (i > skipped and 64 or 2)
        if to > cap then
          to = cap
        end
        slots, shift = call('GETRANGE', key, START + from * SIZE, START + to * SIZE - 1), 0
      end
      local number, lead, weight = parse(SLOT, slots, shift + (slot - from) * SIZE + 1)
      if weight >= RESERVED or i > skipped + BLOCK then
        reserved = 1
        break
      end
      frees = first + number - lead + window
      if not gone and frees > now then
        gone, over = i, used + cost - max
      end
      if gone then
        over = over - weight
      else
        used = used - weight
      end
      i = i + 1
    end
    gone = gone or count
    local room, waits = max - used, 0
    local fits = (room - room % cost) / cost
    if fits <= 0 then
      fits, waits, room = 0, frees - now, room > 0 and room or 0
      if over > 0 then
        reserved = 1
      end
    end
    if reserved > 0 then
      break
    end
    if not left or waits > wait or waits == wait and room < left then
      decides, wait, left, span = view - 1, waits, room, window
    end
    if fits < admitted then
      admitted = fits
    end
    if views then
      views[2 * view - 1], views[2 * view] = gone, used
    end
  end
  if reserved > 0 then
    break
  end
  if admitted == 0 or peeks then
    if peeks or block == 0 then
      local reset = count > 0 and last + span > now and last + span - now or 0
      record, answered = pack(RECORD, wait == 0 and 1 or 0, decides, calls, left, wait, reset, 0), calls
    end
    break
  end
  if views then
    gone, used = views[1], views[2]
    for view = 2, limits do
      local its = views[2 * view - 1]
      gone = its < gone and its or gone
    end
    skipped = views[1] - gone
  else
    skipped = 0
  end
  count, head = count - gone, (head + gone) % (cap > 0 and cap or 1)
  ticket = ticket < now and now or ticket + 1
  if count == 0 then
    first = ticket
  end
  local place, room = 0, nil
  if count < SMALL then
    room = SMALL - count
    if count > 0 and head + count > in_hand then
      break
    end
  else
    room = (cap > 512 and cap - 16 - (cap - cap % 512) / 512 or cap) - count
    if count * 4 <= cap and count <= 2048 or room <= 0 then
      break
    end
    place = (head + count) % cap
    if room > cap - place then
      room = cap - place
    end
    if room > BLOCK - place % BLOCK then
      room = BLOCK - place % BLOCK
    end
  end
  if admitted > room then
    admitted = room
  end
  local lead = ticket - now
  if admitted == 0 or cost >= RESERVED or lead + admitted > 65535 or ticket + admitted - first > 281474976710655 then
    break
  end
  local added = pack(SLOT, ticket - first, lead, cost)
  if admitted > 1 then
    local entries = { added }
    for entry = 1, admitted - 1 do
      entries[entry + 1] = pack(SLOT, ticket + entry - first, lead + entry, cost)
    end
    added = table.concat(entries)
  end
  local weight, further = admitted * cost, ''
  for view = 2, limits do
    further = further .. pack(VIEW, views[2 * view - 1] - gone, views[2 * view] + weight, 0)
  end
  used = used + weight
  local kept = base + (longest < shortest and shortest or longest)
  kept = (kept - kept % 1000) / 1000
  if count < SMALL then
    if count > 0 then
      added = string.sub(bytes, START + head * SIZE + 1, START + (head + count) * SIZE) .. added
    end
    count = count + admitted
    call('SET', key, pack(HEADER, FORM, count, 0, count, refunds, now, now, ticket + admitted - 1, 0, 0, first, open,
      open_reserved, skipped, used, 0) .. further .. added, EXPIRY, kept)
  else
    call('SETRANGE', key, START + place * SIZE, added)
    open, place = open + weight, place + admitted
    if place % BLOCK == 0 then
      call('SETRANGE', key, START + cap * SIZE + (place / BLOCK - 1) * 24, pack('<ddd', now, open, open_reserved))
      open, open_reserved = 0, 0
    end
    call('SETRANGE', key, '0', pack(HEADER, FORM, cap, head, count + admitted, refunds, now, now,
      ticket + admitted - 1, 0, 0, first, open, open_reserved, skipped, used, 0) .. further)
    call(EXPIRE, key, kept)
  end
  record, answered = pack(RECORD, 1, decides, admitted, left - weight, 0, span, ticket), admitted
until true
if answered == calls then
  return ARGV[2] .. record
end
local records, left = record, calls - (answered or 0)
local function quick(may_answer, key, question, calls)
local operation, algorithm, all, cost, block, _, limits, max, window, capacity = parse(QUESTION, question)
local peeks = operation == 3
local asks = may_answer and (operation == 1 or peeks) and cost > 0
local layout = algorithm % 16
algorithm = (algorithm - layout) / 16
local record, answered
calls = calls or all
local longest, most = window, max
for i = 2, limits do
  local other, its = parse('<dd', question, 24 * i + 6)
  longest, most = its > longest and its or longest, other > most and other or most
end
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
  local admitted, stays = calls < 1000 and calls or 1000, 0
  local decides, wait, left, reset = 0, 0, math.huge, 0
  for i = 1, limits do
    if limits > 1 then
      max, window = parse('<dd', question, 24 * i + 6)
    end
    local live, waits = 0, 0
    if count >= max then
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
    local expired, most = count - stays, admitted > 64 and admitted or 64
    call('ZREMRANGEBYRANK', key, '0', (expired < most and expired or most) - 1)
  elseif count == 0 and newest[1] then
    call('UNLINK', key)
  end
  local score = time and #time[2] == 6 and time[1] .. time[2] or string.format('%016.0f', now)
  if admitted == 1 then
    call('ZADD', key, score, ticket == now and score or string.format('%016.0f', ticket))
  else
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
    window = parse('<d', question, 24 * decides + 38)
  end
  record, answered = pack(RECORD, 1, decides, admitted, left - admitted, 0, window, ticket), admitted
until true
repeat
  if not asks or record then
    break
  end
  local ZSET = 1
  local bytes = redis.pcall('GETRANGE', key, '0', limits == 1 and '294' or 274 + 20 * limits)
  if bytes == '' and layout == ZSET or bytes.err then
    break
  end
  local HEADER, VIEW, START, SLOT, SIZE = '<I3I4I4I4I4ddddddddI4dd', '<I4dd', 83 + 20 * limits, '<I6I2I4', 12
  local SMALL, BLOCK, RESERVED = 16, 256, 2147483648
  local FORM = 1 + 65536 * limits
  local cap, head, count, refunds, last, ticket, first = 0, 0, 0, 0, 0, 0, 0
  local open, open_reserved, used, skipped, reserved = 0, 0, 0, 0, 0
  if bytes ~= '' then
    if #bytes < START then
      break
    end
    local form, newest, blocked_until, _
    form, cap, head, count, refunds, newest, last, ticket, blocked_until, _, first, open, open_reserved,
      skipped, used, reserved = parse(HEADER, bytes)
    if form ~= FORM or newest > now or blocked_until > 0 then
      break
    end
    if last + longest <= now then
      head, count, refunds, skipped, used, reserved, open, open_reserved = 0, 0, 0, 0, 0, 0, 0, 0
    end
  end
  local admitted, gone = calls, nil
  local decides, wait, left, span = 0, 0, nil, window
  local views = limits > 1 and {}
  local in_hand = (#bytes - START) / SIZE
  in_hand = in_hand - in_hand % 1
  local slots, from, to, shift = bytes, 0, in_hand < cap and in_hand or cap, START
  for view = 1, limits do
    if view > 1 then
      max, window = parse('<dd', question, 24 * view + 6)
      if count > 0 then
        skipped, used, reserved = parse(VIEW, bytes, 64 + 20 * view)
      end
    end
    local i, over, frees = skipped, 1, 0
    gone = nil
    while i < count and over > 0 do
      local slot = (head + i) % cap
      if slot < from or slot >= to then
        from = slot
        to = slot + (i > skipped and 64 or 2)
        if to > cap then
          to = cap
        end
        slots, shift = call('GETRANGE', key, START + from * SIZE, START + to * SIZE - 1), 0
      end
      local number, lead, weight = parse(SLOT, slots, shift + (slot - from) * SIZE + 1)
      if weight >= RESERVED or i > skipped + BLOCK then
        reserved = 1
        break
      end
      frees = first + number - lead + window
      if not gone and frees > now then
        gone, over = i, used + cost - max
      end
      if gone then
        over = over - weight
      else
        used = used - weight
      end
      i = i + 1
    end
    gone = gone or count
    local room, waits = max - used, 0
    local fits = (room - room % cost) / cost
    if fits <= 0 then
      fits, waits, room = 0, frees - now, room > 0 and room or 0
      if over > 0 then
        reserved = 1
      end
    end
    if reserved > 0 then
      break
    end
    if not left or waits > wait or waits == wait and room < left then
      decides, wait, left, span = view - 1, waits, room, window
    end
    if fits < admitted then
      admitted = fits
    end
    if views then
      views[2 * view - 1], views[2 * view] = gone, used
    end
  end
  if reserved > 0 then
    break
  end
  if admitted == 0 or peeks then
    if peeks or block == 0 then
      local reset = count > 0 and last + span > now and last + span - now or 0
      record, answered = pack(RECORD, wait == 0 and 1 or 0, decides, calls, left, wait, reset, 0), calls
    end
    break
  end
  if views then
    gone, used = views[1], views[2]
    for view = 2, limits do
      local its = views[2 * view - 1]
      gone = its < gone and its or gone
    end
    skipped = views[1] - gone
  else
    skipped = 0
  end
  count, head = count - gone, (head + gone) % (cap > 0 and cap or 1)
  ticket = ticket < now and now or ticket + 1
  if count == 0 then
    first = ticket
  end
  local place, room = 0, nil
  if count < SMALL then
    room = SMALL - count
    if count > 0 and head + count > in_hand then
      break
    end
  else
    room = (cap > 512 and cap - 16 - (cap - cap % 512) / 512 or cap) - count
    if count * 4 <= cap and count <= 2048 or room <= 0 then
      break
    end
    place = (head + count) % cap
    if room > cap - place then
      room = cap - place
    end
    if room > BLOCK - place % BLOCK then
      room = BLOCK - place % BLOCK
    end
  end
  if admitted > room then
    admitted = room
  end
  local lead = ticket - now
  if admitted == 0 or cost >= RESERVED or lead + admitted > 65535 or ticket + admitted - first > 281474976710655 then
    break
  end
  local added = pack(SLOT, ticket - first, lead, cost)
  if admitted > 1 then
    local entries = { added }
    for entry = 1, admitted - 1 do
      entries[entry + 1] = pack(SLOT, ticket + entry - first, lead + entry, cost)
    end
    added = table.concat(entries)
  end
  local weight, further = admitted * cost, ''
  for view = 2, limits do
    further = further .. pack(VIEW, views[2 * view - 1] - gone, views[2 * view] + weight, 0)
  end
  used = used + weight
  local kept = base + (longest < shortest and shortest or longest)
  kept = (kept - kept % 1000) / 1000
  if count < SMALL then
    if count > 0 then
      added = string.sub(bytes, START + head * SIZE + 1, START + (head + count) * SIZE) .. added
    end
    count = count + admitted
    call('SET', key, pack(HEADER, FORM, count, 0, count, refunds, now, now, ticket + admitted - 1, 0, 0, first, open,
      open_reserved, skipped, used, 0) .. further .. added, EXPIRY, kept)
  else
    call('SETRANGE', key, START + place * SIZE, added)
    open, place = open + weight, place + admitted
    if place % BLOCK == 0 then
      call('SETRANGE', key, START + cap * SIZE + (place / BLOCK - 1) * 24, pack('<ddd', now, open, open_reserved))
      open, open_reserved = 0, 0
    end
    call('SETRANGE', key, '0', pack(HEADER, FORM, cap, head, count + admitted, refunds, now, now,
      ticket + admitted - 1, 0, 0, first, open, open_reserved, skipped, used, 0) .. further)
    call(EXPIRE, key, kept)
  end
  record, answered = pack(RECORD, 1, decides, admitted, left - weight, 0, span, ticket), admitted
until true
return record, answered, calls
end
local function full(algorithm)
local OPERATIONS = { 'acquire', 'reserve', 'peek', 'refund', 'release', 'commit', 'block', 'unblock' }
local function read(question)
  local operation, layout, _, cost, block, ticket, n, at = parse('<BBI2dddB', question)
  local request = {
    operation = OPERATIONS[operation] or 'do ' .. operation,
    layout = layout % 16,
    cost = cost,
    block = block,
    ticket = ticket,
    n = n,
    max = {},
    window = {},
    capacity = {},
    longest = 0,
  }
  for i = 1, n do
    local window
    request.max[i], window, request.capacity[i], at = parse('<ddd', question, at)
    request.window[i] = window
    if window > request.longest then
      request.longest = window
    end
  end
  return request
end
local function digits(number)
  return string.format('%.0f', number)
end
local RESERVED_WAIT = 50000
local function failed(message)
  return { err = message }
end
local function unknown(request)
  return failed('ERR this algorithm of the rate limiter cannot ' .. request.operation)
end
local function left_of_block(blocked_until, block)
  return math.max(math.min(blocked_until - now, block), 0)
end
local function verdict(wait, left, reset, at, blocked_for, life, ticket)
  local index = 1
  for i = 2, #wait do
    if wait[i] > wait[index] or wait[i] == wait[index] and left[i] < left[index] then
      index = i
    end
  end
  local retry, whole = wait[index], reset[index]
  if retry > 0 then
    retry = math.min(retry + at - now, life)
  end
  if whole > 0 then
    whole = math.min(whole + at - now, life)
  end
  if blocked_for > 0 then
    return { 0, index - 1, left[index], math.max(retry, blocked_for), math.max(whole, blocked_for), -blocked_for, 1 }
  end
  return { wait[index] == 0 and 1 or 0, index - 1, left[index], retry, whole, ticket, 0 }
end
local function millis(lasts)
  return math.floor((base + math.max(lasts, shortest)) / 1000)
end
local function lasting_millis(lasts)
  return math.ceil(math.max(lasts, shortest) / 1000)
end
local function expire(key, lasts)
  call(EXPIRE, key, millis(lasts))
end
local function set(key, value, lasts)
  call('SET', key, value, EXPIRY, millis(lasts))
end
local function life_of(key, longest)
  local left = call('PTTL', key)
  if left > lasting_millis(longest) or left == -1 then
    expire(key, longest)
    left = math.ceil(longest / 1000)
  end
  return (left + 1) * 1000
end
local function record(verdict, calls)
  if #verdict == 1 then
    return pack(RECORD, verdict[1], 0, calls, 0, 0, 0, 0), calls
  end
  local allowed, limit, remaining, retry, reset, ticket, blocked = unpack(verdict)
  return pack(RECORD, allowed + 2 * blocked, limit, calls, remaining, retry, reset, ticket), calls
end
local function answering(decide)
  return function(key, question, calls)
    work = work + 1
    local request = read(question)
    local verdict = decide(key, request)
    if verdict.err then
      return verdict
    end
    local alike = verdict[1] == 0 and (request.block == 0 or calls == 1 or #verdict == 1)
    return record(verdict, alike and calls or 1)
  end
end
local META = 5000000000000000
local WRONG_LOG = failed('WRONGTYPE the key does not hold a rate limiter log')
local function zset_entry(member, score)
  local time, ticket = tonumber(score), tonumber(member)
  if #member == 16 and not string.find(member, '%D') and time and time >= 0 and time <= ticket and time % 1 == 0 then
    return time, ticket
  end
end
local function zset_meta(member, score)
  local given, ticket = string.match(member, '^meta:(%d+):(%d+)$')
  local ends = tonumber(score)
  if given and #member == 38 and #given == 16 and ends and ends >= META and ends < 2 * META then
    return tonumber(given), tonumber(ticket), ends - META
  end
end
local function zset(key, request)
  local operation, cost, n, longest = request.operation, request.cost, request.n, request.longest
  local wrong_type, entry = WRONG_LOG, zset_entry
  local function name(ticket)
    return string.format('%016.0f', ticket)
  end
  local meta, blocked_until, block, remembered = nil, 0, 0, 0
  local top = call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
  if top[1] and string.sub(top[1], 1, 5) == 'meta:' then
    meta = top[1]
    block, remembered, blocked_until = zset_meta(top[1], top[2])
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
  local function note(new_until, new_block, new_ticket)
    local new = 'meta:' .. name(new_block) .. ':' .. name(new_ticket)
    call('ZADD', key, digits(META + new_until), new)
    if meta and meta ~= new then
      call('ZREM', key, meta)
    end
    meta, blocked_until, block, remembered = new, new_until, new_block, new_ticket
  end
  local at = now
  local life = math.huge
  local blocked_for = left_of_block(blocked_until, block)
  if blocked_until - now > blocked_for then
    note(now + block, block, remembered)
  end
  if last and last > now then
    at = last
    life = life_of(key, math.max(longest, blocked_for))
  end
  if operation == 'block' then
    local rest = call('PTTL', key)
    note(now + request.block, request.block, remembered)
    expire(key, math.max(rest * 1000, request.block))
    return { 1 }
  end
  if operation == 'unblock' then
    if blocked_for == 0 then
      return { 0 }
    end
    if remembered > 0 then
      note(0, 0, remembered)
    else
      call('ZREM', key, meta)
    end
    if call('PTTL', key) > lasting_millis(longest) then
      expire(key, longest)
    end
    return { 1 }
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
      note(blocked_until, block, math.max(remembered, ticket))
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
    note(now + request.block, request.block, remembered)
    expire(key, math.max(request.block, last + longest - now))
    blocked_for, life = request.block, math.huge
  end
  if refused or operation == 'peek' or blocked_for > 0 or cost == 0 then
    return verdict(wait, left, reset, at, blocked_for, life, 0)
  end
  local first = math.max(at, (ticket or 0) + 1, remembered + 1)
  if logged == 0 and (last or meta) then
    call('UNLINK', key)
    meta = nil
  end
  local score = digits(at)
  for from = 0, cost - 1, 1000 do
    local entries = {}
    for offset = from, math.min(from + 1000, cost) - 1 do
      entries[#entries + 1] = score
      entries[#entries + 1] = name(first + offset)
    end
    call('ZADD', key, unpack(entries))
  end
  if meta then
    call('ZREM', key, meta)
  end
  if expired > 0 then
    call('ZREMRANGEBYRANK', key, 0, math.min(expired, math.max(64, cost)) - 1)
  end
  expire(key, longest)
  for i = 1, n do
    left[i] = left[i] - cost
    reset[i] = at + request.window[i] - at
  end
  return verdict(wait, left, reset, at, 0, math.huge, first)
end
local SMALL, BLOCK, LARGE = 16, 256, 512
local HEADER = { format = '<BBBI4I4I4I4dddddddd', size = 83 }
local VIEW = { format = '<I4dd', size = 20 }
local SUMS = { format = '<ddd', size = 24 }
local GAP = { format = '<I4I4', size = 8 }
local NARROW = {
  wide = 0, format = '<I6I2I4', size = 12, reserved = 2 ^ 31, largest_lead = 2 ^ 16, largest_ticket = 2 ^ 48,
  before_cost = 8,
}
local WIDE = {
  wide = 1, format = '<I7I7I7', size = 21, reserved = 2 ^ 52, largest_lead = 2 ^ 56, largest_ticket = 2 ^ 56,
  before_cost = 14,
}
local function ring_load(key, limits)
  local start = HEADER.size + limits * VIEW.size
  local bytes = call('GETRANGE', key, 0, start + SMALL * NARROW.size - 1)
  local skip, used, reserved = {}, {}, {}
  if bytes == '' then
    for i = 1, limits do
      skip[i], used[i], reserved[i] = 0, 0, 0
    end
    return {
      key = key, limits = limits, start = start, exists = false, slot = NARROW,
      cap = 0, head = 0, n = 0, refunds = 0, newest = 0, last = 0, ticket = 0, blocked_until = 0, block = 0,
      base = 0, open = 0, open_reserved = 0, skip = skip, used = used, reserved = reserved,
      moving = false, lower = 0, gap = 0, bytes = '', shift = 0, from = 0, to = 0,
    }
  end
  local version = string.byte(bytes)
  if #bytes < start or version ~= 1 and version ~= 2 or string.byte(bytes, 3) ~= limits then
    return nil
  end
  local _, wide, _, cap, head, n, refunds, newest, last, ticket, blocked_until, block, base, open, open_reserved, at =
    struct.unpack(HEADER.format, bytes)
  for i = 1, limits do
    skip[i], used[i], reserved[i], at = struct.unpack(VIEW.format, bytes, at)
  end
  local slot = wide == 1 and WIDE or NARROW
  local lower, gap = 0, 0
  if version == 2 then
    local place = start + cap * slot.size + cap / BLOCK * SUMS.size
    lower, gap = struct.unpack(GAP.format, call('GETRANGE', key, place, place + GAP.size - 1))
  end
  return {
    key = key, limits = limits, start = start, exists = true, slot = slot,
    cap = cap, head = head, n = n, refunds = refunds, newest = newest, last = last, ticket = ticket,
    blocked_until = blocked_until, block = block,
    base = base, open = open, open_reserved = open_reserved, skip = skip, used = used, reserved = reserved,
    moving = version == 2, lower = lower, gap = gap,
    bytes = bytes, shift = start, from = 0, to = math.min(math.floor((#bytes - start) / slot.size), cap),
  }
end
local function ring_header(log)
  local bytes = struct.pack(HEADER.format, log.moving and 2 or 1, log.slot.wide, log.limits, log.cap, log.head, log.n,
    log.refunds, log.newest, log.last, log.ticket, log.blocked_until, log.block, log.base, log.open, log.open_reserved)
  for i = 1, log.limits do
    bytes = bytes .. struct.pack(VIEW.format, log.skip[i], log.used[i], log.reserved[i])
  end
  return bytes
end
local function ring_slot(slot, base, at, ticket, cost, is_reserved)
  return struct.pack(slot.format, ticket - base, ticket - at, is_reserved and cost + slot.reserved or cost)
end
local function ring_place(log, i)
  if i >= log.lower then
    i = i + log.gap
  end
  return (log.head + i) % log.cap
end
local function ring_sums(log, block)
  return log.start + log.cap * log.slot.size + block * SUMS.size
end
local function ring_keep(log)
  if log.moving then
    call('SETRANGE', log.key, ring_sums(log, log.cap / BLOCK), struct.pack(GAP.format, log.lower, log.gap))
  end
  call('SETRANGE', log.key, 0, ring_header(log))
end
local function ring_entry(log, i, ahead)
  local size = log.slot.size
  local slot = ring_place(log, i)
  local from = log.from
  if slot < from or slot >= log.to then
    local to = math.min(slot + ahead, log.cap)
    log.bytes = call('GETRANGE', log.key, log.start + slot * size, log.start + to * size - 1)
    log.from, log.to, log.shift = slot, to, 0
    from = slot
  end
  local ticket, lead, cost = struct.unpack(log.slot.format, log.bytes, log.shift + (slot - from) * size + 1)
  ticket = ticket + log.base
  if cost >= log.slot.reserved then
    cost = cost - log.slot.reserved
    return ticket - lead, cost, cost, ticket
  end
  return ticket - lead, cost, 0, ticket
end
local function ring_walk(log, i, cut, enough, unreserved)
  local cost, reserved = 0, 0
  local n = log.n
  local ahead = 2
  local stop = 0 -- up to here, entry by entry
  while i < n do
    local at, c, h = ring_entry(log, i, ahead)
    if at > cut or cost + c - (unreserved and reserved + h or 0) >= enough then
      return i, cost, reserved, at
    end
    local slot = ring_place(log, i)
    local straight = math.min((i < log.lower and log.lower or n) - i, log.cap - slot)
    if i >= stop and slot % BLOCK == 0 and straight >= BLOCK then
      local blocks = math.floor(straight / BLOCK)
      local first = ring_sums(log, slot / BLOCK)
      local sums = call('GETRANGE', log.key, first, first + blocks * SUMS.size - 1)
      for block = 0, blocks - 1 do
        at, c, h = struct.unpack(SUMS.format, sums, block * SUMS.size + 1)
        if at > cut or cost + c - (unreserved and reserved + h or 0) >= enough then
          stop = i + BLOCK
          break
        end
        cost, reserved, i = cost + c, reserved + h, i + BLOCK
      end
    else
      cost, reserved, i = cost + c, reserved + h, i + 1
      ahead = math.min(ahead * 4, BLOCK)
    end
  end
  return i, cost, reserved
end
local AT_ONCE, MERGED_AT_ONCE, STEP, TRIMMED = 4, 3, 8192, 1500000
local function ring_spare(cap)
  return 16 + (cap - cap % LARGE) / LARGE
end
local function ring_has_dead(log)
  return log.refunds * 4 >= log.n
end
local function ring_grow(log, most)
  work = work + 12
  local old, sums = log.cap, ring_sums(log, 0)
  local cap = old + (log.refunds * 2 >= log.n and LARGE or math.min(math.floor(old / 2), STEP))
  local enough = most + ring_spare(most)
  if enough > old and enough < cap then
    cap = enough
  end
  cap = math.ceil(cap / BLOCK) * BLOCK
  sums = call('GETRANGE', log.key, sums, ring_sums(log, old / BLOCK) - 1)
  log.cap, log.moving = cap, true
  if log.head + log.n > old then
    log.lower, log.gap = old - log.head, cap - old
  elseif ring_has_dead(log) then
    log.lower = math.max(log.n - (log.head + log.n) % BLOCK, 0)
  end
  ring_keep(log)
  call('SETRANGE', log.key, ring_sums(log, 0), sums)
end
local function ring_moved(log)
  log.moving = false
  if ring_has_dead(log) then
    log.refunds = math.min(log.refunds, math.floor(log.n / 4))
  end
  if ring_sums(log, log.cap / BLOCK) <= TRIMMED then
    redis.pcall('BITOP', 'OR', log.key, log.key)
  end
end
local function ring_move(log)
  work = work + 12
  if log.lower == 0 then
    return ring_moved(log)
  end
  local key, size, blocks = log.key, log.slot.size, log.cap / BLOCK
  local merging = ring_has_dead(log)
  local function slots_at(block)
    return log.start + block * BLOCK * size
  end
  local function sums_of(block)
    return struct.unpack(SUMS.format, call('GETRANGE', key, ring_sums(log, block), ring_sums(log, block + 1) - 1))
  end
  local function is_whole(to, count)
    for view = 1, log.limits do
      if log.skip[view] > to - count and log.skip[view] < to then
        return false
      end
    end
    return true
  end
  local function shorten(to)
    for view = 1, log.limits do
      if log.skip[view] >= to then
        log.skip[view] = log.skip[view] - BLOCK
      end
    end
    log.n, log.lower, log.gap = log.n - BLOCK, log.lower - BLOCK, log.gap + BLOCK
    log.refunds = math.max(log.refunds - BLOCK, 0)
  end
  local function merged(bytes)
    local before, first = log.slot.before_cost, 0
    local dead = string.rep('\0', size - before)
    while string.sub(bytes, first * size + before + 1, (first + 1) * size) ~= dead do
      first = first + 1
      if first > BLOCK then
        return nil
      end
    end
    local each = string.rep('.', before) .. '(' .. string.rep('.', size - before) .. ')'
    local rest = string.gsub(string.sub(bytes, first * size + 1), each, { [dead] = '' })
    local missing = BLOCK - first - #rest / size
    if missing < 0 then
      return nil
    end
    local filling = string.rep(string.sub(bytes, first * size + 1, (first + 1) * size), missing)
    return string.sub(bytes, 1, first * size) .. filling .. rest
  end
  local tries = merging and MERGED_AT_ONCE or 0
  for _ = 1, AT_ONCE do
    if log.lower == 0 then
      break
    end
    local block = math.floor((log.head + log.lower - 1) % log.cap / BLOCK)
    local moved = (block + log.gap / BLOCK) % blocks
    local whole = log.lower >= BLOCK
    local last, cost, reserved = sums_of(block)
    if whole and cost == 0 and is_whole(log.lower, BLOCK) then
      shorten(log.lower)
    else
      local count = math.min(log.lower, BLOCK)
      local place = slots_at(block) + (log.head + log.lower - count) % BLOCK * size
      local entries, both
      if log.gap > 0 or tries > 0 then
        entries = call('GETRANGE', key, place, place + count * size - 1)
      end
      local above = (moved + 1) % blocks
      if tries > 0 and whole and log.n - log.lower >= BLOCK and is_whole(log.lower + BLOCK, 2 * BLOCK) then
        tries = tries - 1
        both = merged(entries .. call('GETRANGE', key, slots_at(above), slots_at(above + 1) - 1))
      end
      if both then
        local newest, more, more_reserved = sums_of(above)
        call('SETRANGE', key, slots_at(above), both)
        call('SETRANGE', key, ring_sums(log, above), struct.pack(SUMS.format, newest, cost + more, reserved + more_reserved))
        shorten(log.lower + BLOCK)
      else
        if log.gap > 0 then
          call('SETRANGE', key, place + (moved - block) * BLOCK * size, entries)
          call('SETRANGE', key, ring_sums(log, moved), struct.pack(SUMS.format, last, cost, reserved))
        end
        log.lower = log.lower - count
      end
    end
  end
  if log.lower == 0 then
    log.head, log.gap = (log.head + log.gap) % log.cap, 0
  end
  log.from, log.to = 0, 0
end
local function ring_room(log, most)
  if log.moving then
    ring_move(log)
  elseif log.n + ring_spare(log.cap) >= log.cap then
    ring_grow(log, most)
  end
  while log.n + log.gap >= log.cap do
    if log.moving then
      ring_move(log)
    else
      ring_grow(log, most)
    end
  end
end
local SHRINKING = 2048
local function ring_span(log, start, size, first, count, of, lower, gap)
  if gap > 0 and lower < count then
    local upper = (first + lower + gap) % of
    return ring_span(log, start, size, first, lower, of, 0, 0) .. ring_span(log, start, size, upper, count - lower, of, 0, 0)
  end
  local straight = math.min(count, of - first)
  if straight <= 0 then
    return ''
  end
  local bytes = call('GETRANGE', log.key, start + first * size, start + (first + straight) * size - 1)
  if straight < count then
    bytes = bytes .. call('GETRANGE', log.key, start, start + (count - straight) * size - 1)
  end
  return bytes
end
local function ring_rewrite(log, swept, form, most, lasts)
  work = work + 12
  local function capacity(needed)
    local cap = math.floor(log.n * 1.5)
    if most > log.n and most < cap then
      cap = most
    end
    cap = math.max(cap, needed, SMALL + 1)
    if cap > LARGE then
      cap = cap + ring_spare(cap)
    end
    return cap < BLOCK and cap or math.ceil(cap / BLOCK) * BLOCK
  end
  local function moved()
    local offset = 0
    local cap = capacity(log.n + 1)
    if log.cap >= BLOCK and cap >= BLOCK then
      offset = log.head % BLOCK
      cap = capacity(log.n + offset + 1)
    end
    local first = log.head - offset
    local lower, gap = offset + log.lower, log.gap
    local slots = ring_span(log, log.start, log.slot.size, first, offset + log.n, log.cap, lower, gap)
    local sums = ''
    if log.cap < BLOCK then
      log.open, log.open_reserved = 0, 0
      for i = 1, log.limits do
        log.open, log.open_reserved = math.max(log.open, log.used[i]), math.max(log.open_reserved, log.reserved[i])
      end
    elseif cap >= BLOCK then
      local blocks = math.floor((offset + log.n) / BLOCK)
      sums = ring_span(log, ring_sums(log, 0), SUMS.size, first / BLOCK, blocks, log.cap / BLOCK, lower / BLOCK, gap / BLOCK)
    end
    log.head = offset
    return cap, slots, sums
  end
  local function sweep()
    local slots, sums, skip = {}, {}, {}
    local cost, reserved, n = 0, 0, 0
    for view = 1, log.limits do
      skip[view] = 0
    end
    for i = 0, log.n - 1 do
      local at, c, h, ticket = ring_entry(log, i, BLOCK)
      if c > 0 then
        n = n + 1
        if form == log.slot then
          local offset = log.shift + (ring_place(log, i) - log.from) * form.size
          slots[n] = string.sub(log.bytes, offset + 1, offset + form.size)
        else
          slots[n] = ring_slot(form, log.base, at, ticket, c, h > 0)
        end
        cost, reserved = cost + c, reserved + h
        if n % BLOCK == 0 then
          sums[n / BLOCK] = struct.pack(SUMS.format, at, cost, reserved)
          cost, reserved = 0, 0
        end
        for view = 1, log.limits do
          if i < log.skip[view] then
            skip[view] = skip[view] + 1
          end
        end
      end
    end
    log.slot = form
    log.head, log.n, log.refunds, log.skip, log.open, log.open_reserved = 0, n, 0, skip, cost, reserved
    return capacity(n + 1), table.concat(slots), table.concat(sums)
  end
  local cap, slots, sums
  if swept then
    cap, slots, sums = sweep()
  else
    cap, slots, sums = moved()
  end
  log.cap, log.moving, log.lower, log.gap = cap, false, 0, 0
  local function padded(bytes, size)
    local zeros = '\0'
    while #zeros < size - #bytes do
      zeros = zeros .. zeros
    end
    return bytes .. string.sub(zeros, 1, size - #bytes)
  end
  slots, sums = padded(slots, cap * log.slot.size), padded(sums, math.floor(cap / BLOCK) * SUMS.size)
  set(log.key, ring_header(log) .. slots .. sums, lasts)
  log.from, log.to = 0, 0
end
local function ring_append(log, at, cost, reserved, most, lasts)
  local skip = log.skip
  local gone = skip[1]
  for i = 2, log.limits do
    gone = math.min(gone, skip[i])
  end
  if gone > 0 then
    local first = ring_place(log, gone)
    if gone >= log.lower then
      log.lower, log.gap = 0, 0
    else
      log.lower = log.lower - gone
    end
    log.n, log.head = log.n - gone, first
    for i = 1, log.limits do
      skip[i] = skip[i] - gone
    end
  end
  local ticket = math.max(at, log.ticket + 1)
  if log.n == 0 then
    log.slot, log.base = NARROW, ticket
  end
  local slot = log.slot
  if cost >= slot.reserved or ticket - at >= slot.largest_lead or ticket - log.base >= slot.largest_ticket then
    if log.n > 0 then
      ring_rewrite(log, true, WIDE, most, lasts)
    else
      log.slot = WIDE
    end
  end
  local few = log.n <= LARGE
  local is_sparse = log.n <= SHRINKING and log.n * 4 <= log.cap and gone < BLOCK
  if log.n >= SMALL and (few and log.n == log.cap or is_sparse) then
    ring_rewrite(log, few and log.refunds * 2 >= log.n, log.slot, most, lasts)
  elseif log.n >= SMALL and log.cap > LARGE then
    ring_room(log, most)
  end
  local n, key, start, size = log.n, log.key, log.start, log.slot.size
  log.n, log.newest, log.last, log.ticket = n + 1, at, at, ticket
  log.blocked_until, log.block = 0, 0
  for i = 1, log.limits do
    log.used[i], log.reserved[i] = log.used[i] + cost, log.reserved[i] + reserved
  end
  local bytes = ring_slot(log.slot, log.base, at, ticket, cost, reserved > 0)
  if n < SMALL then
    if n > 0 then
      local head = log.head
      local slots
      if log.gap == 0 and head + n <= log.to and log.from == 0 then
        slots = string.sub(log.bytes, log.shift + head * size + 1, log.shift + (head + n) * size)
      else
        slots = ring_span(log, start, size, head, n, log.cap, log.lower, log.gap)
      end
      bytes = slots .. bytes
    end
    log.cap, log.head, log.moving, log.lower, log.gap = n + 1, 0, false, 0, 0
    set(key, ring_header(log) .. bytes, lasts)
    return ticket
  end
  local place = ring_place(log, n)
  call('SETRANGE', key, start + place * size, bytes)
  log.open, log.open_reserved = log.open + cost, log.open_reserved + reserved
  place = place + 1
  if place % BLOCK == 0 then
    local sums = struct.pack(SUMS.format, at, log.open, log.open_reserved)
    call('SETRANGE', key, ring_sums(log, place / BLOCK - 1), sums)
    log.open, log.open_reserved = 0, 0
  end
  ring_keep(log)
  expire(key, lasts)
  return ticket
end
local function ring_change(log, operation, ticket, amount)
  local function sums_of(block)
    return struct.unpack(SUMS.format, call('GETRANGE', log.key, ring_sums(log, block), ring_sums(log, block + 1) - 1))
  end
  local function find()
    local from, to = log.skip[1], log.n - 1
    for i = 2, log.limits do
      from = math.min(from, log.skip[i])
    end
    while from <= to do
      local middle = math.floor((from + to) / 2)
      local at, cost, reserved, found = ring_entry(log, middle, 1)
      if found == ticket then
        return middle, at, cost, reserved
      elseif found < ticket then
        from = middle + 1
      else
        to = middle - 1
      end
    end
  end
  local function lessen(i, cost, reserved)
    for view = 1, log.limits do
      if i >= log.skip[view] then
        log.used[view], log.reserved[view] = log.used[view] - cost, log.reserved[view] - reserved
      end
    end
    if log.cap >= BLOCK then
      if log.n - i <= (log.head + log.n) % log.cap % BLOCK then
        log.open, log.open_reserved = log.open - cost, log.open_reserved - reserved
      else
        local block = math.floor(ring_place(log, i) / BLOCK)
        local last, all, all_reserved = sums_of(block)
        call('SETRANGE', log.key, ring_sums(log, block), struct.pack(SUMS.format, last, all - cost, all_reserved - reserved))
      end
    end
  end
  local function pop()
    local size, before = log.slot.size, log.slot.before_cost
    local dead = string.rep('\0', size - before)
    local sums, slots, first, loaded
    log.from, log.to = 0, 0
    while log.n > 0 do
      if log.n == log.lower then
        log.lower, log.gap = 0, 0
      end
      local tail = ring_place(log, log.n - 1) + 1
      local all, all_reserved
      if log.cap >= BLOCK and tail % BLOCK == 0 then
        sums = sums or call('GETRANGE', log.key, ring_sums(log, 0), ring_sums(log, log.cap / BLOCK) - 1)
        all, all_reserved = struct.unpack('<dd', sums, (tail / BLOCK - 1) * SUMS.size + 9)
      end
      if all == 0 and log.n >= BLOCK then
        log.n = log.n - BLOCK
      else
        if not first or tail <= first or tail > loaded then
          first, loaded = tail - 1 - (tail - 1) % BLOCK, tail
          slots = call('GETRANGE', log.key, log.start + first * size, log.start + tail * size - 1)
        end
        local offset = (tail - first) * size
        if string.sub(slots, offset - size + before + 1, offset) ~= dead then
          log.last = ring_entry(log, log.n - 1, 1)
          break
        end
        if all then
          log.open, log.open_reserved = all, all_reserved
        end
        log.n = log.n - 1
      end
    end
    if log.n == 0 then
      log.head, log.last, log.open, log.open_reserved = 0, 0, 0, 0
      log.moving, log.lower, log.gap = false, 0, 0
    end
    for view = 1, log.limits do
      log.skip[view] = math.min(log.skip[view], log.n)
    end
  end
  local i, at, cost, reserved = find()
  if not i or cost == 0 or operation == 'commit' and reserved == 0 then
    return { 0 }
  end
  local function write(i, at, cost, reserved, ticket, kept)
    local slot = ring_place(log, i)
    call('SETRANGE', log.key, log.start + slot * log.slot.size, ring_slot(log.slot, log.base, at, ticket, kept, false))
    lessen(i, cost - kept, reserved)
  end
  if operation == 'commit' then
    write(i, at, cost, reserved, ticket, cost)
  else
    local last = i
    repeat
      write(i, at, cost, reserved, ticket, 0)
      log.refunds, amount, last = log.refunds + 1, amount - cost, i
      i = i + 1
      local following
      if amount > 0 and i < log.n then
        log.from, log.to = 0, 0
        at, cost, reserved, following = ring_entry(log, i, 1)
      end
      ticket = ticket + 1
    until following ~= ticket or cost == 0 or cost > amount
    if last == log.n - 1 then
      pop()
    end
  end
  ring_keep(log)
  return { 1 }
end
local function ring_block(log, blocked_until, block, longest)
  log.blocked_until, log.block = blocked_until, block
  local lasts = math.max(left_of_block(blocked_until, block), math.min(log.newest + longest - now, longest))
  if log.exists then
    call('SETRANGE', log.key, 0, ring_header(log))
    expire(log.key, lasts)
  else
    set(log.key, ring_header(log), lasts)
  end
end
local function ring(key, request)
  local operation, n, cost, longest = request.operation, request.n, request.cost, request.longest
  local log = ring_load(key, request.n)
  if not log then
    return failed('WRONGTYPE the key does not hold a rate limiter log of these limits')
  end
  local at = math.max(now, log.newest)
  local life = math.huge
  local blocked_for = left_of_block(log.blocked_until, log.block)
  if log.blocked_until - now > blocked_for then
    ring_block(log, now + log.block, log.block, longest)
  end
  if log.newest > now then
    life = life_of(key, math.max(longest, blocked_for))
  end
  if operation == 'block' then
    ring_block(log, now + request.block, request.block, longest)
    return { 1 }
  end
  if operation == 'unblock' then
    if blocked_for > 0 then
      log.blocked_until, log.block = 0, 0
      call('SETRANGE', key, 0, ring_header(log))
      if call('PTTL', key) > lasting_millis(longest) then
        expire(key, longest)
      end
    end
    return { blocked_for > 0 and 1 or 0 }
  end
  local skip, used, reserved = log.skip, log.used, log.reserved
  if log.last + longest <= at then
    log.head, log.n, log.refunds, log.last, log.open, log.open_reserved = 0, 0, 0, 0, 0, 0
    log.moving, log.lower, log.gap = false, 0, 0
    for i = 1, n do
      skip[i], used[i], reserved[i] = 0, 0, 0
    end
  else
    for i = 1, n do
      local first, c, h = ring_walk(log, skip[i], at - request.window[i], math.huge)
      skip[i], used[i], reserved[i] = first, used[i] - c, reserved[i] - h
    end
  end
  if operation == 'refund' or operation == 'release' or operation == 'commit' then
    return ring_change(log, operation, request.ticket, request.cost)
  end
  if operation ~= 'acquire' and operation ~= 'reserve' and operation ~= 'peek' then
    return unknown(request)
  end
  local wait, left, reset = {}, {}, {}
  local refused = false
  for i = 1, n do
    local max, window = request.max[i], request.window[i]
    local over = used[i] + cost - max
    wait[i], left[i] = 0, math.max(max - used[i], 0)
    reset[i] = log.n > 0 and math.max(log.last + window - at, 0) or 0
    if over > 0 then
      local _, _, _, frees = ring_walk(log, skip[i], math.huge, over)
      wait[i] = frees + window - at
      refused = true
    end
  end
  if refused then
    local exceeded, open = false, 0
    for i = 1, n do
      if reserved[i] > 0 then
        open = -1
      end
      local over = used[i] + cost - request.max[i]
      local unreserved = over > 0 and reserved[i] == 0 and wait[i] or 0
      if over > reserved[i] and reserved[i] > 0 then
        local _, _, _, frees = ring_walk(log, skip[i], math.huge, over - reserved[i], true)
        unreserved = frees + request.window[i] - at
      end
      exceeded = exceeded or unreserved > 0
      wait[i] = math.min(wait[i], math.max(unreserved, RESERVED_WAIT))
    end
    if exceeded and operation ~= 'peek' and request.block > 0 and blocked_for == 0 then
      ring_block(log, now + request.block, request.block, longest)
      blocked_for = request.block
    end
    return verdict(wait, left, reset, at, blocked_for, life, open)
  end
  if operation == 'peek' or blocked_for > 0 or cost == 0 then
    return verdict(wait, left, reset, at, blocked_for, life, 0)
  end
  local most = 0
  for i = 1, n do
    if request.window[i] == longest then
      most = math.max(most, request.max[i])
    end
    left[i], reset[i] = left[i] - cost, request.window[i]
  end
  local ticket = ring_append(log, at, cost, operation == 'reserve' and cost or 0, most, longest)
  return verdict(wait, left, reset, at, 0, longest, ticket)
end
local function convert(key, request)
  local members = call('ZRANGE', key, 0, -1, 'WITHSCORES')
  local newest, ticket = 0, 0
  local times, tickets = {}, {}
  for i = 1, #members, 2 do
    local time, number = zset_entry(members[i], members[i + 1])
    if time then
      times[#times + 1], tickets[#tickets + 1] = time, number
      newest, ticket = time, number
    else
      local _, remembered = zset_meta(members[i], members[i + 1])
      if not remembered then
        return WRONG_LOG
      end
      ticket = math.max(ticket, remembered)
    end
  end
  local n = #times
  local first = tickets[1] or 0
  local slot = NARROW
  for i = 1, n do
    if tickets[i] - times[i] >= NARROW.largest_lead or tickets[i] - first >= NARROW.largest_ticket then
      slot = WIDE
    end
  end
  local slots, skip, used, reserved = {}, {}, {}, {}
  for i = 1, n do
    slots[i] = ring_slot(slot, first, times[i], tickets[i], 1, false)
  end
  for i = 1, request.n do
    skip[i], used[i], reserved[i] = 0, n, 0
  end
  if n == BLOCK then
    slots[n + 1] = struct.pack(SUMS.format, newest, n, 0)
  end
  local header = ring_header {
    slot = slot, limits = request.n, cap = n, head = 0, n = n, refunds = 0, newest = newest, last = newest,
    ticket = ticket, blocked_until = 0, block = 0, base = first, open = 0, open_reserved = 0,
    skip = skip, used = used, reserved = reserved,
  }
  set(key, header .. table.concat(slots), request.longest)
end
local ZSET, RING = 1, 2
local LARGEST_ZSET, LARGEST_CONVERTED, LARGEST_IN_ZSET = 126, 256, 1000
local function log(key, request)
  local kept = call('TYPE', key).ok
  if kept == 'string' then
    return ring(key, request)
  elseif kept ~= 'zset' and kept ~= 'none' then
    return failed('WRONGTYPE the key does not hold a rate limiter log')
  end
  local operation = request.operation
  if operation == 'commit' or operation == 'release' then
    return { 0 }
  end
  local needs_ring = request.layout == RING and kept == 'none' or operation == 'reserve' or request.cost > 1
  for i = 1, request.n do
    needs_ring = needs_ring or request.max[i] > LARGEST_ZSET
  end
  if not needs_ring or request.layout == ZSET then
    return zset(key, request)
  elseif kept == 'none' then
    return ring(key, request)
  elseif operation ~= 'acquire' and operation ~= 'reserve' then
    return zset(key, request)
  end
  request.operation = 'peek'
  local verdict = zset(key, request)
  request.operation = operation
  if verdict.err then
    return verdict
  elseif verdict[1] == 1 and request.cost > 0 then
    if call('ZCARD', key) <= LARGEST_CONVERTED then
      return convert(key, request) or ring(key, request)
    elseif operation == 'reserve' or request.cost > LARGEST_IN_ZSET then
      return failed('ERR a sorted set of more than ' .. LARGEST_CONVERTED .. ' members takes neither reservations nor costs'
        .. ' above ' .. LARGEST_IN_ZSET)
    end
  end
  request.operation = 'acquire'
  return zset(key, request)
end
return answering(log)
end
local made = {}
local is_enough = false
local function later(calls, records)
  is_enough = true
  return (records or '') .. pack(RECORD, 64, 0, calls, 0, 0, 0, 0)
end
local function answer(key, question, calls, records)
  if is_enough then
    local _, _, all = parse('<BBI2', question)
    return later(all)
  end
  repeat
    local record, answered, all = quick(true, key, question, calls)
    calls = calls or all
    if not record then
      if work >= most_work then
        return later(calls, records)
      end
      local algorithm = math.floor(string.byte(question, 2) / 16)
      made[algorithm] = made[algorithm] or full(algorithm)
      if not made[algorithm] then
        return { err = 'ERR the rate limiter knows no algorithm ' .. algorithm }
      end
      record, answered = made[algorithm](key, question, calls)
      if type(record) == 'table' then
        return record
      end
    end
    calls = calls - answered
    records = records and records .. record or record
  until calls == 0
  return records
end
most_work = 12
if #KEYS == 1 then
  local reply = answer(KEYS[1], ARGV[3], left, records)
  return type(reply) == 'table' and reply or ARGV[2] .. reply
end
local replies = {}
for i = 1, #KEYS do
  local done, reply = pcall(answer, KEYS[i], ARGV[i + 2])
  if not done or type(reply) == 'table' then
    local message = type(reply) == 'table' and reply.err or tostring(reply)
    reply = pack('<BBI2', 128, 0, #message) .. message
  end
  replies[i] = reply
end
return ARGV[2] .. table.concat(replies)
