-- The log as a ring, or nothing yet: nothing reserved, no block, and a clock that goes forward.
-- `full.lua` has the rest, `log.lua` the format.
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
  -- The format, that slots are narrow, and how many limits.
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
      -- All of it has expired.
      head, count, refunds, skipped, used, reserved, open, open_reserved = 0, 0, 0, 0, 0, 0, 0, 0
    end
  end

  -- How many calls each limit has room for; else how long it waits. `verdict` in `common.lua` says
  -- which one decides.
  local admitted, gone = calls, nil
  local decides, wait, left, span = 0, 0, nil, window
  local views = limits > 1 and {}
  local in_hand = (#bytes - START) / SIZE
  in_hand = in_hand - in_hand % 1
  local slots, from, to, shift = bytes, 0, in_hand < cap and in_hand or cap, START
  for view = 1, limits do
    if view > 1 then
      max, window = parse('<dd', question, 32 * view)
      if count > 0 then
        skipped, used, reserved = parse(VIEW, bytes, 64 + 20 * view)
      end
    end
    -- Past what has left the window; if that is not enough, on to the entry that frees the next
    -- slot.
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

  -- As many as fit in a row.
  local place, room = 0, nil
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
  local weight, further = admitted * cost, ''
  for view = 2, limits do
    further = further .. pack(VIEW, views[2 * view - 1] - gone, views[2 * view] + weight, 0)
  end
  used = used + weight

  local kept = base + (longest < shortest and shortest or longest)
  kept = (kept - kept % 1000) / 1000
  if count < SMALL then
    -- A few entries are written whole.
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
