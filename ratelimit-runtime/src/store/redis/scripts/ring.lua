-- An exact sliding window of calls of any weight, as one string: a header, slots in a ring, and sums of blocks of them.
--
--   header   '<BBBI4I4I4I4ddddddd': format (1), whether the slots are wide, how many limits; slots in the ring, the
--            slot of the first entry, how many entries, refunds since the dead were swept out; newest time, time of the
--            last entry that counts, newest ticket, end of the ban, first ticket, cost and reservations in the open
--            block, which is the one that is being written
--   views    '<I4dd' per limit: how many of the first entries have left its window; cost and reservations of all others
--   slots    '<I6I2I4': ticket (from the first ticket on), how far it is ahead of the entry's time, cost (and 2^31 if
--            reserved); wide, '<I7I7I7' (and 2^52), once there is a number that the others do not hold
--   sums     '<ddd' per block of 256 slots, once all of them are written: last time, cost and reservations of the block
--
-- A ticket is the entry's time, or one more than the last ticket; none is given twice while the key lives. A refunded
-- entry stays where it is with a cost of 0, unless it is the last.
--
-- Up to 16 entries fill their slots from the first on, and are read and written whole. The sums keep every other call
-- short as well: whoever has to get past many entries takes them by the block.
--
-- A call runs the whole file, and Lua makes every function anew: what few calls need is made inside of what needs it.

local SMALL, BLOCK = 16, 256
local HEADER, HEADER_SIZE = '<BBBI4I4I4I4ddddddd', 75
local VIEW, VIEW_SIZE = '<I4dd', 20
local SUMS, SUMS_SIZE = '<ddd', 24

-- Nil if the key holds something else.
local function ring_load(key, limits)
  local start = HEADER_SIZE + limits * VIEW_SIZE
  local bytes = call('GETRANGE', key, 0, start + SMALL * 12 - 1)
  local skip, used, held = {}, {}, {}
  if bytes == '' then
    for i = 1, limits do
      skip[i], used[i], held[i] = 0, 0, 0
    end
    return {
      key = key, limits = limits, start = start, exists = false,
      wide = 0, slot = '<I6I2I4', size = 12, held_bit = 2 ^ 31,
      cap = 0, head = 0, n = 0, refunds = 0, newest = 0, last = 0, ticket = 0, ban = 0,
      base = 0, open = 0, open_held = 0, skip = skip, used = used, held = held,
      bytes = '', shift = 0, from = 0, to = 0,
    }
  end
  if #bytes < start or string.byte(bytes) ~= 1 or string.byte(bytes, 3) ~= limits then
    return nil
  end
  local _, wide, _, cap, head, n, refunds, newest, last, ticket, ban, base, open, open_held, at =
    struct.unpack(HEADER, bytes)
  for i = 1, limits do
    skip[i], used[i], held[i], at = struct.unpack(VIEW, bytes, at)
  end
  local size = wide == 1 and 21 or 12
  return {
    key = key, limits = limits, start = start, exists = true,
    wide = wide, slot = wide == 1 and '<I7I7I7' or '<I6I2I4', size = size, held_bit = wide == 1 and 2 ^ 52 or 2 ^ 31,
    cap = cap, head = head, n = n, refunds = refunds, newest = newest, last = last, ticket = ticket, ban = ban,
    base = base, open = open, open_held = open_held, skip = skip, used = used, held = held,
    -- The slots from `from` to before `to` are in `bytes`, after `shift` others.
    bytes = bytes, shift = start, from = 0, to = math.min(math.floor((#bytes - start) / size), cap),
  }
end

local function ring_header(log)
  local bytes = struct.pack(HEADER, 1, log.wide, log.limits, log.cap, log.head, log.n, log.refunds,
    log.newest, log.last, log.ticket, log.ban, log.base, log.open, log.open_held)
  for i = 1, log.limits do
    bytes = bytes .. struct.pack(VIEW, log.skip[i], log.used[i], log.held[i])
  end
  return bytes
end

-- Time, cost, reserved cost and ticket of an entry. If it has to be read, so are up to `ahead` from it on.
local function ring_entry(log, i, ahead)
  local size = log.size
  local slot = (log.head + i) % log.cap
  local from = log.from
  if slot < from or slot >= log.to then
    local to = math.min(slot + ahead, log.cap)
    log.bytes = call('GETRANGE', log.key, log.start + slot * size, log.start + to * size - 1)
    log.from, log.to, log.shift = slot, to, 0
    from = slot
  end
  local ticket, lead, cost = struct.unpack(log.slot, log.bytes, log.shift + (slot - from) * size + 1)
  ticket = ticket + log.base
  if cost >= log.held_bit then
    cost = cost - log.held_bit
    return ticket - lead, cost, cost, ticket
  end
  return ticket - lead, cost, 0, ticket
end

-- Goes past entries, from `i` on, up to the first that is newer than `cut`, or with which their cost, or if `unheld`
-- what of it is not reserved, reaches `enough`. Returns that entry, cost and reservations of those before, its time.
local function ring_walk(log, i, cut, enough, unheld)
  local cost, held = 0, 0
  local n = log.n
  local ahead = 2
  local stop = 0 -- up to here, entry by entry
  while i < n do
    local at, c, h = ring_entry(log, i, ahead)
    if at > cut or cost + c - (unheld and held + h or 0) >= enough then
      return i, cost, held, at
    end
    local slot = (log.head + i) % log.cap
    if i >= stop and slot % BLOCK == 0 and n - i >= BLOCK then
      local blocks = math.floor(math.min(n - i, log.cap - slot) / BLOCK)
      local first = log.start + log.cap * log.size + slot / BLOCK * SUMS_SIZE
      local sums = call('GETRANGE', log.key, first, first + blocks * SUMS_SIZE - 1)
      for block = 0, blocks - 1 do
        at, c, h = struct.unpack(SUMS, sums, block * SUMS_SIZE + 1)
        if at > cut or cost + c - (unheld and held + h or 0) >= enough then
          stop = i + BLOCK
          break
        end
        cost, held, i = cost + c, held + h, i + BLOCK
      end
    else
      cost, held, i = cost + c, held + h, i + 1
      ahead = math.min(ahead * 4, BLOCK)
    end
  end
  return i, cost, held
end

-- Writes the log anew, with other room: half as many slots again as there are entries, or `most` if that is enough.
-- `swept`, it is without the dead, and with slots of the form that `wide` says.
local function ring_rewrite(log, swept, wide, most, lasts)
  local function capacity(needed)
    local cap = math.floor(log.n * 1.5)
    if most > log.n and most < cap then
      cap = most
    end
    cap = math.max(cap, needed, SMALL + 1)
    return cap < BLOCK and cap or math.ceil(cap / BLOCK) * BLOCK
  end

  -- `count` pieces of `size` bytes from number `first` on, in a ring of `of` that starts at byte `start`.
  local function span(start, size, first, count, of)
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

  -- Where there are sums, the entries keep their places within the blocks, so that nothing has to be added up again.
  local function moved()
    local offset = 0
    local cap = capacity(log.n + 1)
    if log.cap >= BLOCK and cap >= BLOCK then
      offset = log.head % BLOCK
      cap = capacity(log.n + offset + 1)
    end
    local first = log.head - offset
    local slots = span(log.start, log.size, first, offset + log.n, log.cap)
    local sums = ''
    if log.cap < BLOCK then
      -- All of it will be in the first block.
      log.open, log.open_held = 0, 0
      for i = 1, log.limits do
        log.open, log.open_held = math.max(log.open, log.used[i]), math.max(log.open_held, log.held[i])
      end
    elseif cap >= BLOCK then
      local blocks = math.floor((offset + log.n) / BLOCK)
      sums = span(log.start + log.cap * log.size, SUMS_SIZE, first / BLOCK, blocks, log.cap / BLOCK)
    end
    log.head = offset
    return cap, slots, sums
  end

  local function sweep()
    local slots, sums, skip = {}, {}, {}
    local cost, held, n = 0, 0, 0
    for view = 1, log.limits do
      skip[view] = 0
    end
    local slot = wide == 1 and '<I7I7I7' or '<I6I2I4'
    local held_bit = wide == 1 and 2 ^ 52 or 2 ^ 31
    for i = 0, log.n - 1 do
      local at, c, h, ticket = ring_entry(log, i, BLOCK)
      if c > 0 then
        n = n + 1
        slots[n] = struct.pack(slot, ticket - log.base, ticket - at, h > 0 and c + held_bit or c)
        cost, held = cost + c, held + h
        if n % BLOCK == 0 then
          sums[n / BLOCK] = struct.pack(SUMS, at, cost, held)
          cost, held = 0, 0
        end
        for view = 1, log.limits do
          if i < log.skip[view] then
            skip[view] = skip[view] + 1
          end
        end
      end
    end
    log.wide, log.slot, log.size, log.held_bit = wide, slot, wide == 1 and 21 or 12, held_bit
    log.head, log.n, log.refunds, log.skip, log.open, log.open_held = 0, n, 0, skip, cost, held
    return capacity(n + 1), table.concat(slots), table.concat(sums)
  end

  local cap, slots, sums
  if swept then
    cap, slots, sums = sweep()
  else
    cap, slots, sums = moved()
  end
  log.cap = cap
  local room = cap * log.size - #slots
  local blocks = math.floor(cap / BLOCK) * SUMS_SIZE - #sums
  set(log.key, ring_header(log) .. slots .. string.rep('\0', room) .. sums .. string.rep('\0', blocks), lasts)
  log.from, log.to = 0, 0
end

-- Adds an entry. `most` is how many there may be if each costs 1.
local function ring_append(log, at, cost, held, most, lasts)
  local skip = log.skip
  local gone = skip[1]
  for i = 2, log.limits do
    gone = math.min(gone, skip[i])
  end
  if gone > 0 then
    log.n, log.head = log.n - gone, (log.head + gone) % log.cap
    for i = 1, log.limits do
      skip[i] = skip[i] - gone
    end
  end

  local ticket = math.max(at, log.ticket + 1)
  if log.n == 0 then
    log.wide, log.slot, log.size, log.held_bit, log.base = 0, '<I6I2I4', 12, 2 ^ 31, ticket
  end
  if log.wide == 0 and (cost >= 2 ^ 31 or ticket - at >= 2 ^ 16 or ticket - log.base >= 2 ^ 48) then
    if log.n > 0 then
      ring_rewrite(log, true, 1, most, lasts)
    else
      log.wide, log.slot, log.size, log.held_bit = 1, '<I7I7I7', 21, 2 ^ 52
    end
  end
  if log.n >= SMALL and (log.n == log.cap or log.n * 4 <= log.cap) then
    ring_rewrite(log, log.refunds * 2 >= log.n, log.wide, most, lasts)
  end

  local n, key, start, size = log.n, log.key, log.start, log.size
  log.n, log.newest, log.last, log.ticket, log.ban = n + 1, at, at, ticket, 0
  for i = 1, log.limits do
    log.used[i], log.held[i] = log.used[i] + cost, log.held[i] + held
  end
  local bytes = struct.pack(log.slot, ticket - log.base, ticket - at, held > 0 and cost + log.held_bit or cost)
  if n < SMALL then
    if n > 0 then
      local head = log.head
      local straight = math.min(n, log.cap - head)
      local slots
      if head + straight <= log.to and log.from == 0 then
        slots = string.sub(log.bytes, log.shift + head * size + 1, log.shift + (head + straight) * size)
      else
        slots = call('GETRANGE', key, start + head * size, start + (head + straight) * size - 1)
      end
      if straight < n then
        slots = slots .. call('GETRANGE', key, start, start + (n - straight) * size - 1)
      end
      bytes = slots .. bytes
    end
    log.cap, log.head = n + 1, 0
    set(key, ring_header(log) .. bytes, lasts)
    return ticket
  end
  local slot = (log.head + n) % log.cap
  call('SETRANGE', key, start + slot * size, bytes)
  log.open, log.open_held = log.open + cost, log.open_held + held
  slot = slot + 1
  if slot % BLOCK == 0 then
    local sums = struct.pack(SUMS, at, log.open, log.open_held)
    call('SETRANGE', key, start + log.cap * size + (slot / BLOCK - 1) * SUMS_SIZE, sums)
    log.open, log.open_held = 0, 0
  end
  call('SETRANGE', key, 0, ring_header(log))
  expire(key, lasts)
  return ticket
end

-- Refunds the entry with this ticket, or makes it an ordinary one.
local function ring_settle(log, mode, ticket)
  local function sums_at(block)
    return log.start + log.cap * log.size + block * SUMS_SIZE
  end

  local function sums_of(block)
    return struct.unpack(SUMS, call('GETRANGE', log.key, sums_at(block), sums_at(block + 1) - 1))
  end

  local function find()
    local from, to = log.skip[1], log.n - 1
    for i = 2, log.limits do
      from = math.min(from, log.skip[i])
    end
    while from <= to do
      local middle = math.floor((from + to) / 2)
      local at, cost, held, found = ring_entry(log, middle, 1)
      if found == ticket then
        return middle, at, cost, held
      elseif found < ticket then
        from = middle + 1
      else
        to = middle - 1
      end
    end
  end

  -- Takes `cost` and `held` out of all sums that the entry is in.
  local function lessen(i, cost, held)
    for view = 1, log.limits do
      if i >= log.skip[view] then
        log.used[view], log.held[view] = log.used[view] - cost, log.held[view] - held
      end
    end
    if log.cap >= BLOCK then
      if log.n - i <= (log.head + log.n) % log.cap % BLOCK then
        log.open, log.open_held = log.open - cost, log.open_held - held
      else
        local block = math.floor((log.head + i) % log.cap / BLOCK)
        local last, all, all_held = sums_of(block)
        call('SETRANGE', log.key, sums_at(block), struct.pack(SUMS, last, all - cost, all_held - held))
      end
    end
  end

  -- Takes from the end what is dead.
  local function pop()
    log.from, log.to = 0, 0
    while log.n > 0 do
      local tail = (log.head + log.n - 1) % log.cap + 1
      local edge = log.cap >= BLOCK and tail % BLOCK == 0
      local all, all_held, _
      if edge then
        _, all, all_held = sums_of(tail / BLOCK - 1)
      end
      if edge and all == 0 and log.n >= BLOCK then
        log.n = log.n - BLOCK
      else
        local at, cost = ring_entry(log, log.n - 1, 1)
        if cost > 0 then
          log.last = at
          break
        end
        if edge then
          log.open, log.open_held = all, all_held
        end
        log.n = log.n - 1
      end
    end
    if log.n == 0 then
      log.head, log.last, log.open, log.open_held = 0, 0, 0, 0
    end
    for view = 1, log.limits do
      log.skip[view] = math.min(log.skip[view], log.n)
    end
  end

  local i, at, cost, held = find()
  if not i or cost == 0 or mode == 'commit' and held == 0 then
    return { 0 }
  end
  local kept = mode == 'commit' and cost or 0
  local slot = (log.head + i) % log.cap
  call('SETRANGE', log.key, log.start + slot * log.size, struct.pack(log.slot, ticket - log.base, ticket - at, kept))
  lessen(i, cost - kept, held)
  if kept == 0 then
    log.refunds = log.refunds + 1
    if i == log.n - 1 then
      pop()
    end
  end
  call('SETRANGE', log.key, 0, ring_header(log))
  return { 1 }
end

local function ring_ban(log, ban, longest)
  log.ban = ban
  local lasts = math.max(ban - now, math.min(log.newest + longest - now, longest))
  if log.exists then
    call('SETRANGE', log.key, 0, ring_header(log))
    expire(log.key, lasts)
  else
    set(log.key, ring_header(log), lasts)
  end
end

local function ring(key, request)
  local mode, n, cost, longest = request.mode, request.n, request.cost, request.longest
  local log = ring_load(key, request.n)
  if not log then
    return redis.error_reply('WRONGTYPE the key does not hold a rate limiter log of these limits')
  end
  if mode == 'unblock' then
    if log.ban <= now then
      return { 0 }
    end
    log.ban = 0
    call('SETRANGE', key, 0, ring_header(log))
    if call('PTTL', key) > lasting_millis(longest) then
      expire(key, longest)
    end
    return { 1 }
  end

  -- A clock that has stepped back is read as standing still, so that nothing is admitted twice.
  local at = math.max(now, log.newest)
  local life = math.huge
  if log.newest > now then
    life = life_of(key, math.max(longest, request.ban))
  end
  if mode == 'block' then
    ring_ban(log, now + request.ban, longest)
    return { 1 }
  end

  local skip, used, held = log.skip, log.used, log.held
  if log.last + longest <= at then
    -- All of it has expired.
    log.head, log.n, log.refunds, log.last, log.open, log.open_held = 0, 0, 0, 0, 0, 0
    for i = 1, n do
      skip[i], used[i], held[i] = 0, 0, 0
    end
  else
    for i = 1, n do
      local first, c, h = ring_walk(log, skip[i], at - request.window[i], math.huge)
      skip[i], used[i], held[i] = first, used[i] - c, held[i] - h
    end
  end
  if mode == 'refund' or mode == 'release' or mode == 'commit' then
    return ring_settle(log, mode, request.ticket)
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
    -- Without the open reservations, what would be in the way?
    local exceeded = false
    for i = 1, n do
      local over = used[i] + cost - request.max[i]
      local unheld = over > 0 and held[i] == 0 and wait[i] or 0
      if over > held[i] and held[i] > 0 then
        local _, _, _, frees = ring_walk(log, skip[i], math.huge, over - held[i], true)
        unheld = frees + request.window[i] - at
      end
      exceeded = exceeded or unheld > 0
      wait[i] = math.min(wait[i], math.max(unheld, HELD_WAIT))
    end
    if exceeded and mode ~= 'peek' and request.ban > 0 and log.ban <= now then
      ring_ban(log, now + request.ban, longest)
      life = math.max(life, request.ban)
    end
    return verdict(wait, left, reset, at, log.ban, life, 0)
  end
  if mode == 'peek' or log.ban > now or cost == 0 then
    return verdict(wait, left, reset, at, log.ban, life, 0)
  end

  local most = 0
  for i = 1, n do
    if request.window[i] == longest then
      most = math.max(most, request.max[i])
    end
    left[i], reset[i] = left[i] - cost, request.window[i]
  end
  local ticket = ring_append(log, at, cost, mode == 'reserve' and cost or 0, most, longest)
  return verdict(wait, left, reset, at, 0, longest, ticket)
end
