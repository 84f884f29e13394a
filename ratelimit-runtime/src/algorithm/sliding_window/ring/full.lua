-- Adding to a ring.

local SHRINKING = 2048

-- `count` pieces of `size` bytes from number `first` on, in a ring of `of` that starts at byte
-- `start`; the first `lower` of them before a gap of `gap`.
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

-- Writes a log that is short anew, with other room: half as many slots again as there are entries,
-- or `most` if that is enough. `swept`, it is without the dead, and with slots of the form `form`.
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

  -- Where there are sums, the entries keep their places within the blocks, so that nothing has to
  -- be added up again.
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
      -- All of it will be in the first block.
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

-- Adds an entry. `most` is how many there may be if each costs 1.
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
  -- A call that has come past many entries has done enough.
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


-- The operations on a ring. `log.lua` describes its format.

-- Refunds the entry with this ticket, or makes it an ordinary one.
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

  -- Takes `cost` and `reserved` out of all sums that the entry is in.
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

  -- Takes from the end what is dead.
  local function pop()
    local size, before = log.slot.size, log.slot.before_cost
    local dead = string.rep('\0', size - before)
    -- All sums, and the slots of one block: one command for each.
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
    -- What was admitted while the log was a sorted set has an entry for each unit of its cost,
    -- under tickets in a row.
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

  -- A clock that has stepped back is read as standing still, so that nothing is admitted twice.
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
    -- All of it has expired.
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
    -- Without the open reservations, what would be in the way?
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
