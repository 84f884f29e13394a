-- Adding to a ring.
--
-- needs: common ring_log ring_move

local SHRINKING = 2048

-- `count` pieces of `size` bytes from number `first` on, in a ring of `of` that starts at byte `start`; the first
-- `lower` of them before a gap of `gap`.
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

-- Writes a log that is short anew, with other room: half as many slots again as there are entries, or `most` if that is
-- enough. `swept`, it is without the dead, and with slots of the form `form`.
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

  -- Where there are sums, the entries keep their places within the blocks, so that nothing has to be added up again.
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

