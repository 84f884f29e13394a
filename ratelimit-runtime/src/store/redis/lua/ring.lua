-- An exact sliding window of calls of any weight, as one string: a header, slots in a ring, and sums of blocks of them.
--
--   header   '<BBBI4I4I4I4ddddddd': format (1), whether the slots are wide, how many limits; slots in the ring, the slot
--            of the first entry, how many entries, refunds since the dead were swept out; newest time, time of the last
--            entry that counts, newest ticket, end of the ban, first ticket, cost and reservations in the open block
--   views    '<I4dd' per limit: how many of the first entries have left its window; cost and reservations of all others
--   slots    '<I6I2I4': ticket (from the first ticket on), how far it is ahead of the entry's time, cost (+2^31 if held);
--            wide, '<I7I7I7' with a cost of 2^52 for held, if there ever was a number that the others do not hold
--   sums     '<ddd' per block of 256 slots, once all of them are written: last time, cost and reservations of the block
--
-- A ticket is the entry's time, or one more than the last ticket; none is given twice while the key lives. A refunded
-- entry stays where it is with a cost of 0, unless it is the last.
--
-- Up to 16 entries fill their slots from the first on, and are read and written whole. The sums keep every other call
-- short as well: whoever has to get past many entries takes them by the block.

local SMALL, BLOCK = 16, 256
local HEADER, HEADER_SIZE = '<BBBI4I4I4I4ddddddd', 75
local VIEW, VIEW_SIZE = 'I4dd', 20
local SUMS, SUMS_SIZE = '<ddd', 24
local NARROW = { slot = '<I6I2I4', size = 12, tickets = 2 ^ 48, ahead = 2 ^ 16, held = 2 ^ 31 }
local WIDE = { slot = '<I7I7I7', size = 21, tickets = 2 ^ 53, ahead = 2 ^ 53, held = 2 ^ 52 }

local ceil, floor, max_of, min_of, huge = math.ceil, math.floor, math.max, math.min, math.huge
local pack_bytes, unpack_bytes = struct.pack, struct.unpack

-- Reading.

-- Nil if the key holds something else.
local function ring_load(key, request)
  local n = request.n
  local header_size = HEADER_SIZE + n * VIEW_SIZE
  local bytes = call('GETRANGE', key, 0, header_size + SMALL * NARROW.size - 1)
  local log = {
    key = key, format = HEADER .. string.rep(VIEW, n), header_size = header_size, form = NARROW, limits = n,
    exists = bytes ~= '', cap = 0, head = 0, n = 0, refunds = 0, newest = 0, last = 0, ticket = 0, ban = 0, base = 0,
    open = 0, open_held = 0, skip = {}, used = {}, held = {},
    -- The slots `from` to `to` are in `bytes`, `shift` bytes from the start.
    bytes = bytes, shift = header_size, from = 0, to = 0,
  }
  for i = 1, n do
    log.skip[i], log.used[i], log.held[i] = 0, 0, 0
  end
  if not log.exists then
    return log
  end
  if #bytes < header_size or string.byte(bytes) ~= 1 or string.byte(bytes, 3) ~= n then
    return nil
  end
  local f = { unpack_bytes(log.format, bytes) }
  if f[2] == 1 then
    log.form = WIDE
  end
  log.cap, log.head, log.n, log.refunds, log.newest, log.last = f[4], f[5], f[6], f[7], f[8], f[9]
  log.ticket, log.ban, log.base, log.open, log.open_held = f[10], f[11], f[12], f[13], f[14]
  for i = 1, n do
    log.skip[i], log.used[i], log.held[i] = f[12 + 3 * i], f[13 + 3 * i], f[14 + 3 * i]
  end
  log.to = min_of(floor((#bytes - header_size) / log.form.size), log.cap)
  return log
end

-- Time, cost, reserved cost and ticket of an entry. If it has to be read, so are up to `ahead` after it.
local function ring_entry(log, i, ahead)
  local form = log.form
  local slot = (log.head + i) % log.cap
  if slot < log.from or slot >= log.to then
    local to = min_of(slot + ahead, log.cap)
    local start = log.header_size
    log.bytes = call('GETRANGE', log.key, start + slot * form.size, start + to * form.size - 1)
    log.from, log.to, log.shift = slot, to, 0
  end
  local ticket, lead, cost = unpack_bytes(form.slot, log.bytes, log.shift + (slot - log.from) * form.size + 1)
  ticket = ticket + log.base
  if cost >= form.held then
    cost = cost - form.held
    return ticket - lead, cost, cost, ticket
  end
  return ticket - lead, cost, 0, ticket
end

local function ring_sums_at(log, block)
  return log.header_size + log.cap * log.form.size + block * SUMS_SIZE
end

local function ring_sums(log, block)
  local start = ring_sums_at(log, block)
  return unpack_bytes(SUMS, call('GETRANGE', log.key, start, start + SUMS_SIZE - 1))
end

-- Goes past entries, from `i` on, up to the first that is newer than `cut`, or with which their cost, or if `unheld`
-- what of it is not reserved, reaches `enough`. Returns that entry, cost and reservations of those before, its time.
local function ring_walk(log, i, cut, enough, unheld)
  local cost, held = 0, 0
  local n, cap = log.n, log.cap
  local ahead = 2
  local stuck = false
  while i < n do
    local slot = (log.head + i) % cap
    if not stuck and slot % BLOCK == 0 and n - i >= BLOCK then
      local blocks = floor(min_of(n - i, cap - slot) / BLOCK)
      local start = ring_sums_at(log, slot / BLOCK)
      local sums = call('GETRANGE', log.key, start, start + blocks * SUMS_SIZE - 1)
      for block = 0, blocks - 1 do
        local at, c, h = unpack_bytes(SUMS, sums, block * SUMS_SIZE + 1)
        if at > cut or cost + c - (unheld and held + h or 0) >= enough then
          stuck = true
          break
        end
        cost, held, i = cost + c, held + h, i + BLOCK
      end
    else
      for _ = i, min_of(n, i + BLOCK - slot % BLOCK) - 1 do
        local at, c, h = ring_entry(log, i, ahead)
        if at > cut or cost + c - (unheld and held + h or 0) >= enough then
          return i, cost, held, at
        end
        cost, held, i = cost + c, held + h, i + 1
        ahead = min_of(ahead * 4, BLOCK)
      end
    end
  end
  return i, cost, held
end

-- The entry with this ticket; tickets ascend.
local function ring_find(log, ticket, from)
  local to = log.n - 1
  while from <= to do
    local middle = floor((from + to) / 2)
    local _, _, _, found = ring_entry(log, middle, 1)
    if found == ticket then
      return middle
    elseif found < ticket then
      from = middle + 1
    else
      to = middle - 1
    end
  end
end

-- Writing.

local function ring_header(log)
  local views = {}
  for i = 1, log.limits do
    views[3 * i - 2], views[3 * i - 1], views[3 * i] = log.skip[i], log.used[i], log.held[i]
  end
  return pack_bytes(log.format, 1, log.form == WIDE and 1 or 0, log.limits, log.cap, log.head, log.n, log.refunds,
    log.newest, log.last, log.ticket, log.ban, log.base, log.open, log.open_held, unpack(views))
end

local function ring_slot(log, form, at, cost, held, ticket)
  return pack_bytes(form.slot, ticket - log.base, ticket - at, held > 0 and cost + form.held or cost)
end

-- `count` pieces of `size` bytes from number `first` on, in a ring of `of` that starts at byte `start`.
local function ring_span(log, start, size, first, count, of)
  local straight = min_of(count, of - first)
  if straight <= 0 then
    return ''
  end
  local bytes = call('GETRANGE', log.key, start + first * size, start + (first + straight) * size - 1)
  if straight < count then
    bytes = bytes .. call('GETRANGE', log.key, start, start + (count - straight) * size - 1)
  end
  return bytes
end

local function ring_slots(log, first, count)
  return ring_span(log, log.header_size, log.form.size, first, count, log.cap)
end

local function ring_replace(log, cap, slots, sums, lasts)
  log.cap = cap
  local room = cap * log.form.size - #slots
  local blocks = floor(cap / BLOCK) * SUMS_SIZE - #sums
  set(log.key, ring_header(log) .. slots .. string.rep('\0', room) .. sums .. string.rep('\0', blocks), lasts)
  log.from, log.to = 0, 0
end

-- How many slots `entries` are given: half as many again, or `most` if that is enough, and at least `needed`.
local function ring_capacity(entries, most, needed)
  local cap = floor(entries * 1.5)
  if most > entries and most < cap then
    cap = most
  end
  cap = max_of(cap, needed)
  return cap < BLOCK and cap or ceil(cap / BLOCK) * BLOCK
end

-- Makes room for another entry, or gives up what is empty. Where there are sums, the entries keep their places within
-- the blocks, so that nothing has to be added up again.
local function ring_resize(log, most, lasts)
  local offset = 0
  local cap = ring_capacity(log.n, most, log.n + 1)
  if log.cap >= BLOCK and cap >= BLOCK then
    offset = log.head % BLOCK
    cap = ring_capacity(log.n, most, log.n + offset + 1)
  end
  local first = log.head - offset
  local slots = ring_slots(log, first, offset + log.n)
  local sums = ''
  if log.cap < BLOCK then
    -- All of it will be in the first block.
    log.open, log.open_held = 0, 0
    for i = 1, log.limits do
      log.open, log.open_held = max_of(log.open, log.used[i]), max_of(log.open_held, log.held[i])
    end
  elseif cap >= BLOCK then
    local start = ring_sums_at(log, 0)
    sums = ring_span(log, start, SUMS_SIZE, first / BLOCK, floor((offset + log.n) / BLOCK), log.cap / BLOCK)
  end
  log.head = offset
  ring_replace(log, cap, slots, sums, lasts)
end

-- Writes all entries anew, without the dead: to make use of their room, or of wide slots.
local function ring_rebuild(log, form, most, lasts)
  local slots, sums, skip = {}, {}, {}
  local cost, held, n = 0, 0, 0
  for i = 1, log.limits do
    skip[i] = 0
  end
  for i = 0, log.n - 1 do
    local at, c, h, ticket = ring_entry(log, i, BLOCK)
    if c > 0 then
      n = n + 1
      slots[n] = ring_slot(log, form, at, c, h, ticket)
      cost, held = cost + c, held + h
      if n % BLOCK == 0 then
        sums[n / BLOCK] = pack_bytes(SUMS, at, cost, held)
        cost, held = 0, 0
      end
      for view = 1, log.limits do
        if i < log.skip[view] then
          skip[view] = skip[view] + 1
        end
      end
    end
  end
  log.form, log.head, log.n, log.refunds, log.skip = form, 0, n, 0, skip
  log.open, log.open_held = cost, held
  local cap = ring_capacity(n, most, max_of(n + 1, SMALL + 1))
  ring_replace(log, cap, table.concat(slots), table.concat(sums), lasts)
end

-- Adds an entry. `most` is how many there may be if each costs 1.
local function ring_append(log, at, cost, held, most, lasts)
  local gone = log.n
  for i = 1, log.limits do
    gone = min_of(gone, log.skip[i])
  end
  log.n = log.n - gone
  if gone > 0 then
    log.head = (log.head + gone) % log.cap
    for i = 1, log.limits do
      log.skip[i] = log.skip[i] - gone
    end
  end

  local ticket = max_of(at, log.ticket + 1)
  if log.n == 0 then
    log.form, log.base = NARROW, ticket
  end
  local form = log.form
  if cost >= form.held or ticket - at >= form.ahead or ticket - log.base >= form.tickets then
    if log.n > 0 then
      ring_rebuild(log, WIDE, most, lasts)
    end
    form, log.form = WIDE, WIDE
  end
  if log.n >= SMALL and (log.n == log.cap or log.n * 4 <= log.cap) then
    if log.refunds * 2 >= log.n then
      ring_rebuild(log, form, most, lasts)
    else
      ring_resize(log, most, lasts)
    end
  end

  log.newest, log.last, log.ticket, log.ban = at, at, ticket, 0
  for i = 1, log.limits do
    log.used[i], log.held[i] = log.used[i] + cost, log.held[i] + held
  end
  local bytes = ring_slot(log, form, at, cost, held, ticket)
  local n = log.n
  log.n = n + 1
  if n < SMALL then
    local slots = ring_slots(log, log.head, n)
    log.head = 0
    ring_replace(log, n + 1, slots .. bytes, '', lasts)
    return ticket
  end
  local slot = (log.head + n) % log.cap
  call('SETRANGE', log.key, log.header_size + slot * form.size, bytes)
  log.open, log.open_held = log.open + cost, log.open_held + held
  if (slot + 1) % BLOCK == 0 then
    call('SETRANGE', log.key, ring_sums_at(log, (slot + 1) / BLOCK - 1), pack_bytes(SUMS, at, log.open, log.open_held))
    log.open, log.open_held = 0, 0
  end
  call('SETRANGE', log.key, 0, ring_header(log))
  expire(log.key, lasts)
  return ticket
end

-- Takes from the end what is dead.
local function ring_pop(log)
  log.from, log.to = 0, 0
  while log.n > 0 do
    local tail = (log.head + log.n - 1) % log.cap + 1
    local edge = log.cap >= BLOCK and tail % BLOCK == 0
    local _, sum, sum_held
    if edge then
      _, sum, sum_held = ring_sums(log, tail / BLOCK - 1)
    end
    if edge and sum == 0 and log.n >= BLOCK then
      log.n = log.n - BLOCK
    else
      local at, cost = ring_entry(log, log.n - 1, 1)
      if cost > 0 then
        log.last = at
        break
      end
      if edge then
        log.open, log.open_held = sum, sum_held
      end
      log.n = log.n - 1
    end
  end
  if log.n == 0 then
    log.head, log.last, log.open, log.open_held = 0, 0, 0, 0
  end
  for i = 1, log.limits do
    log.skip[i] = min_of(log.skip[i], log.n)
  end
end

-- Takes `cost` and `held` out of all sums that entry `i` is in, and makes it what is left.
local function ring_lessen(log, i, cost, held, kept)
  local at, _, _, ticket = ring_entry(log, i, 1)
  local slot = (log.head + i) % log.cap
  call('SETRANGE', log.key, log.header_size + slot * log.form.size, ring_slot(log, log.form, at, kept, 0, ticket))
  for view = 1, log.limits do
    if i >= log.skip[view] then
      log.used[view], log.held[view] = log.used[view] - cost, log.held[view] - held
    end
  end
  if log.cap >= BLOCK then
    if log.n - i <= (log.head + log.n) % log.cap % BLOCK then
      log.open, log.open_held = log.open - cost, log.open_held - held
    else
      local block = floor(slot / BLOCK)
      local last, sum, sum_held = ring_sums(log, block)
      call('SETRANGE', log.key, ring_sums_at(log, block), pack_bytes(SUMS, last, sum - cost, sum_held - held))
    end
  end
end

local function ring_settle(log, mode, ticket)
  local gone = log.n
  for i = 1, log.limits do
    gone = min_of(gone, log.skip[i])
  end
  local i = ring_find(log, ticket, gone)
  if not i then
    return { 0 }
  end
  local _, cost, held = ring_entry(log, i, 1)
  if mode == 'commit' then
    if held == 0 then
      return { 0 }
    end
    ring_lessen(log, i, 0, held, cost)
  else
    if cost == 0 then
      return { 0 }
    end
    ring_lessen(log, i, cost, held, 0)
    log.refunds = log.refunds + 1
    if i == log.n - 1 then
      ring_pop(log)
    end
  end
  call('SETRANGE', log.key, 0, ring_header(log))
  return { 1 }
end

local function ring_ban(log, ban, longest)
  log.ban = ban
  local lasts = max_of(ban - now, min_of(log.newest + longest - now, longest))
  if log.exists then
    call('SETRANGE', log.key, 0, ring_header(log))
    expire(log.key, lasts)
  else
    set(log.key, ring_header(log), lasts)
  end
end

local function ring(key, request)
  local mode, n, cost, longest = request.mode, request.n, request.cost, request.longest
  local log = ring_load(key, request)
  if not log then
    return redis.error_reply('WRONGTYPE the key does not hold a rate limiter log of these limits')
  end
  if mode == 'unblock' then
    if log.ban <= now then
      return { 0 }
    end
    log.ban = 0
    call('SETRANGE', key, 0, ring_header(log))
    return { 1 }
  end

  -- A clock that has stepped back is read as standing still, so that nothing is admitted twice.
  local at = max_of(now, log.newest)
  local life = huge
  if log.newest > now then
    life = life_of(key, max_of(longest, request.ban))
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
      local first, c, h = ring_walk(log, skip[i], at - request.window[i], huge)
      skip[i], used[i], held[i] = first, used[i] - c, held[i] - h
    end
  end
  if mode == 'refund' or mode == 'return' or mode == 'commit' then
    return ring_settle(log, mode, request.ticket)
  end

  local wait, left, reset = {}, {}, {}
  local refused = false
  for i = 1, n do
    local max, window = request.max[i], request.window[i]
    local over = used[i] + cost - max
    wait[i], left[i] = 0, max_of(max - used[i], 0)
    reset[i] = log.n > 0 and max_of(log.last + window - at, 0) or 0
    if over > 0 then
      local _, _, _, frees = ring_walk(log, skip[i], huge, over)
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
        local _, _, _, frees = ring_walk(log, skip[i], huge, over - held[i], true)
        unheld = frees + request.window[i] - at
      end
      exceeded = exceeded or unheld > 0
      wait[i] = min_of(wait[i], max_of(unheld, HELD_WAIT))
    end
    if exceeded and mode ~= 'peek' and request.ban > 0 and log.ban <= now then
      ring_ban(log, now + request.ban, longest)
      life = max_of(life, request.ban)
    end
    return verdict(wait, left, reset, at, log.ban, life, 0)
  end
  if mode == 'peek' or log.ban > now or cost == 0 then
    return verdict(wait, left, reset, at, log.ban, life, 0)
  end

  local most = 0
  for i = 1, n do
    if request.window[i] == longest then
      most = max_of(most, request.max[i])
    end
    left[i], reset[i] = left[i] - cost, request.window[i]
  end
  local ticket = ring_append(log, at, cost, mode == 'hold' and cost or 0, most, longest)
  return verdict(wait, left, reset, at, 0, longest, ticket)
end
