-- Adding to a ring.
--
-- needs: common ring_log

-- Writes the log anew, with other room: half as many slots again as there are entries, or `most` if that is enough.
-- `swept`, it is without the dead, and with slots of the form `form`.
local function ring_rewrite(log, swept, form, most, lasts)
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
    local slots = span(log.start, log.slot.size, first, offset + log.n, log.cap)
    local sums = ''
    if log.cap < BLOCK then
      -- All of it will be in the first block.
      log.open, log.open_reserved = 0, 0
      for i = 1, log.limits do
        log.open, log.open_reserved = math.max(log.open, log.used[i]), math.max(log.open_reserved, log.reserved[i])
      end
    elseif cap >= BLOCK then
      local blocks = math.floor((offset + log.n) / BLOCK)
      sums = span(log.start + log.cap * log.slot.size, SUMS.size, first / BLOCK, blocks, log.cap / BLOCK)
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
        slots[n] = ring_slot(form, log.base, at, ticket, c, h > 0)
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
  log.cap = cap
  local room = cap * log.slot.size - #slots
  local blocks = math.floor(cap / BLOCK) * SUMS.size - #sums
  set(log.key, ring_header(log) .. slots .. string.rep('\0', room) .. sums .. string.rep('\0', blocks), lasts)
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
    log.n, log.head = log.n - gone, (log.head + gone) % log.cap
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
  if log.n >= SMALL and (log.n == log.cap or log.n * 4 <= log.cap) then
    ring_rewrite(log, log.refunds * 2 >= log.n, log.slot, most, lasts)
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
  local place = (log.head + n) % log.cap
  call('SETRANGE', key, start + place * size, bytes)
  log.open, log.open_reserved = log.open + cost, log.open_reserved + reserved
  place = place + 1
  if place % BLOCK == 0 then
    local sums = struct.pack(SUMS.format, at, log.open, log.open_reserved)
    call('SETRANGE', key, start + log.cap * size + (place / BLOCK - 1) * SUMS.size, sums)
    log.open, log.open_reserved = 0, 0
  end
  call('SETRANGE', key, 0, ring_header(log))
  expire(key, lasts)
  return ticket
end

