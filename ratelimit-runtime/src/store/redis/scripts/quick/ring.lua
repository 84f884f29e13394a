-- The log as a ring, or nothing yet: one limit, nothing reserved, no block, and a clock that goes forward. `full/ring_log`
-- has the rest, and the format.
repeat
  if not asks or record then
    break
  end
  local ZSET = 1
  local bytes = redis.pcall('GETRANGE', key, '0', '294')
  if bytes == '' and layout == ZSET or type(bytes) ~= 'string' then
    break
  end
  local HEADER, START, SLOT, SIZE = '<BBBI4I4I4I4ddddddddI4dd', 103, '<I6I2I4', 12
  local SMALL, BLOCK, RESERVED = 16, 256, 2147483648
  local cap, head, count, refunds, last, ticket, first = 0, 0, 0, 0, 0, 0, 0
  local open, open_reserved, used, skipped = 0, 0, 0, 0
  if bytes ~= '' then
    if #bytes < START then
      break
    end
    local version, wide, limits, newest, blocked_until, reserved, _
    version, wide, limits, cap, head, count, refunds, newest, last, ticket, blocked_until, _, first, open, open_reserved,
      skipped, used, reserved = parse(HEADER, bytes)
    if version ~= 1 or wide ~= 0 or limits ~= 1 or newest > now or blocked_until > 0 or reserved > 0 then
      break
    end
    if last + window <= now then
      -- All of it has expired.
      head, count, refunds, skipped, used, open, open_reserved = 0, 0, 0, 0, 0, 0, 0
    end
  end

  -- Past what has left the window; if that is not enough, on to the entry that frees the next slot.
  local in_hand = (#bytes - START) / SIZE
  in_hand = in_hand - in_hand % 1
  local slots, from, to, shift = bytes, 0, in_hand < cap and in_hand or cap, START
  local i, gone, over, frees = skipped, nil, 1, 0
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
      skipped = nil
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
  if not skipped then
    break
  end
  gone = gone or count

  local room = max - used
  local admitted = (room - room % cost) / cost
  if admitted <= 0 then
    if block == 0 and over <= 0 then
      record, answered = pack(RECORD, 0, 0, calls, room > 0 and room or 0, frees - now, last + window - now, 0), calls
    end
    break
  end
  if admitted > calls then
    admitted = calls
  end
  count, head = count - gone, (head + gone) % (cap > 0 and cap or 1)
  ticket = ticket < now and now or ticket + 1
  if count == 0 then
    first = ticket
  end

  -- As many as fit in a row.
  local place = 0
  if count < SMALL then
    room = SMALL - count
    if count > 0 and head + count > in_hand then
      break
    end
  else
    -- A long one has to grow before it is full.
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
  used = used + admitted * cost

  local kept = base + (window < shortest and shortest or window)
  kept = (kept - kept % 1000) / 1000
  if count < SMALL then
    -- A few entries are written whole.
    if count > 0 then
      added = string.sub(bytes, START + head * SIZE + 1, START + (head + count) * SIZE) .. added
    end
    count = count + admitted
    call('SET', key, pack(HEADER, 1, 0, 1, count, 0, count, refunds, now, now, ticket + admitted - 1, 0, 0, first, open,
      open_reserved, 0, used, 0) .. added, EXPIRY, kept)
  else
    call('SETRANGE', key, START + place * SIZE, added)
    open, place = open + admitted * cost, place + admitted
    if place % BLOCK == 0 then
      call('SETRANGE', key, START + cap * SIZE + (place / BLOCK - 1) * 24, pack('<ddd', now, open, open_reserved))
      open, open_reserved = 0, 0
    end
    call('SETRANGE', key, '0', pack(HEADER, 1, 0, 1, cap, head, count + admitted, refunds, now, now,
      ticket + admitted - 1, 0, 0, first, open, open_reserved, 0, used, 0))
    call(EXPIRE, key, kept)
  end
  record, answered = pack(RECORD, 1, 0, admitted, max - used, 0, window, ticket), admitted
until true
