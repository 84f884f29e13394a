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

-- The sums of a block, from its slots: `bytes` from `at` on.
local function ring_sum(slot, bytes, at)
  local ticket, lead = struct.unpack(slot.format, bytes, at + (BLOCK - 1) * slot.size)
  local cost, reserved, mark, size = 0, 0, slot.reserved, slot.size
  local format = '<' .. string.rep(slot.as_cost, 8)
  for from = at, at + (BLOCK - 8) * size, 8 * size do
    local _, a, _, b, _, c, _, d, _, e, _, f, _, g, _, h = struct.unpack(format, bytes, from)
    cost = cost + a + b + c + d + e + f + g + h
  end
  if cost >= mark then
    -- Perhaps some are reserved.
    cost = 0
    for from = at, at + (BLOCK - 1) * size, size do
      local _, _, its = struct.unpack(slot.format, bytes, from)
      if its >= mark then
        its = its - mark
        reserved = reserved + its
      end
      cost = cost + its
    end
  end
  return struct.pack(SUMS.format, ticket - lead, cost, reserved)
end

-- Writes a log that is short anew, with other room: half as many slots again as it needs, or `most`
-- if that is enough. Its slots get the form `form`, and the dead are left out where they are many.
local function ring_rewrite(log, form, most, lasts)
  work = work + 12
  local function capacity(needed)
    local cap = math.ceil(needed * 1.5 / 4) * 4
    if most >= needed and most < cap then
      cap = most
    end
    if cap > LARGE then
      cap = math.ceil((cap + ring_spare(cap)) / BLOCK) * BLOCK
    end
    return cap
  end

  local function all_sums(slots)
    local sums = ''
    for block = 0, math.floor(log.n / BLOCK) - 1 do
      sums = sums .. ring_sum(log.slot, slots, block * BLOCK * log.slot.size + 1)
    end
    return sums
  end

  -- Where there are sums, the entries keep their places within the blocks, so that nothing has to
  -- be added up again.
  local function moved()
    local cap, offset, sums = capacity(log.n + 1), 0, ''
    local has_sums = log.cap > LARGE and cap > LARGE
    if has_sums then
      offset = log.head % BLOCK
      cap = capacity(log.n + offset + 1)
    end
    local first = log.head - offset
    local lower, gap = offset + log.lower, log.gap
    local slots = ring_span(log, log.start, log.slot.size, first, offset + log.n, log.cap, lower, gap)
    if has_sums then
      local blocks = math.floor((offset + log.n) / BLOCK)
      sums = ring_span(log, ring_sums(log, 0), SUMS.size, first / BLOCK, blocks, log.cap / BLOCK, lower / BLOCK, gap / BLOCK)
    end
    if cap > LARGE and not has_sums then
      sums = all_sums(slots)
    end
    log.head = offset
    return cap, slots, sums
  end

  -- The living slots, in runs between the dead: nothing but their places changes.
  local function swept()
    local size = log.slot.size
    local bytes = ring_span(log, log.start, size, log.head, log.n, log.cap, log.lower, log.gap)
    local costs = { struct.unpack('<' .. string.rep(log.slot.as_cost, log.n), bytes) }
    local gone, runs, from, sub = {}, {}, 0, string.sub
    for i = 0, log.n - 1 do
      if costs[2 * i + 2] == 0 then
        gone[#gone + 1] = i
        if from < i then
          runs[#runs + 1] = sub(bytes, from * size + 1, i * size)
        end
        from = i + 1
      end
    end
    runs[#runs + 1] = sub(bytes, from * size + 1)
    for view = 1, log.limits do
      -- How many of the dead are among those that have left its window.
      local low, high = 0, #gone
      while low < high do
        local middle = math.ceil((low + high) / 2)
        if gone[middle] < log.skip[view] then
          low = middle
        else
          high = middle - 1
        end
      end
      log.skip[view] = log.skip[view] - low
    end
    log.head, log.n, log.refunds, log.lower, log.gap = 0, log.n - #gone, 0, 0, 0
    return table.concat(runs)
  end

  -- The same slots in the wide form: zeros behind each number, and a mark in its other place.
  local function widened(slots)
    local front, zeros = string.rep('.', NARROW.before_cost), '\0\0\0\0'
    if log.reserved[log.widest] == 0 then
      return (string.gsub(slots, '(' .. front .. ')(...)', '%1' .. zeros .. '\0%2' .. zeros))
    end
    return (string.gsub(slots, '(' .. front .. ')(..)(.)', function(times, cost, highest)
      local byte, last = string.byte(highest), '\0'
      if byte >= 128 then
        highest, last = string.char(byte - 128), '\16'
      end
      return times .. zeros .. '\0' .. cost .. highest .. '\0\0\0' .. last
    end))
  end

  local cap, slots, sums
  local has_new_sums = log.cap <= LARGE and capacity(log.n + 1) > LARGE
  if log.n <= LARGE and log.refunds * (has_new_sums and log.n or 2) >= log.n then
    slots = swept()
    cap = capacity(log.n + 1)
    sums = cap > LARGE and all_sums(slots) or ''
  else
    cap, slots, sums = moved()
  end
  if form ~= log.slot then
    -- Only a log without entries has narrow slots again.
    slots, log.slot = widened(slots), form
  end
  log.cap, log.moving, log.lower, log.gap = cap, false, 0, 0
  local function missing(bytes, count, size)
    return string.rep(string.rep('\0', size), count - #bytes / size)
  end
  -- Long texts are put together once.
  local value = ring_head(log) .. slots .. missing(slots, cap, log.slot.size)
    .. sums .. missing(sums, cap > LARGE and cap / BLOCK or 0, SUMS.size)
    .. (ring_has_extras(log) and ring_extras(log) or '')
  set(log.key, value, lasts)
  log.from, log.to = 0, 0
end

-- Lets go of what has left the longest window.
local function ring_drop(log)
  local gone = log.skip[log.widest]
  if gone > 0 then
    log.head, log.n = ring_place(log, gone), log.n - gone
    if gone >= log.lower then
      log.lower, log.gap = 0, 0
    else
      log.lower = log.lower - gone
    end
    for i = 1, log.limits do
      log.skip[i] = math.max(log.skip[i] - gone, 0)
    end
  end
  return gone
end

-- Notes that the expiry is written: `lasts` from now on, which is returned.
local function ring_lasts(log, lasts)
  log.ends = EXPIRE == 'PEXPIREAT' and now + lasts or 0
  return lasts
end

-- Adds an entry. `most` is how many there may be if each costs 1; `gone` have just been let go of.
local function ring_append(log, at, cost, reserved, most, longest, gone)
  local ticket, n = math.max(at, log.ticket + 1), log.n
  local form = n == 0 and NARROW or log.slot
  if cost >= form.reserved or ticket - at >= form.largest_lead then
    form = WIDE
  end
  log.ticket = ticket
  -- The expiry is written rarely, from the second time on; exactly where the clock was set back.
  local counts, blocked = at > now and longest or ticket + longest - now, ring_rest_of_block(log)
  local is_covered = EXPIRE == 'PEXPIREAT' and at <= now and now + math.max(counts, blocked) <= log.ends
  if not is_covered then
    local further = log.exists and EXPIRE == 'PEXPIREAT' and at <= now and longest or 0
    ring_lasts(log, math.max(counts + further, blocked))
  end
  local lasts = log.ends > 0 and log.ends - now or math.max(counts, blocked)
  -- A call that has come past many entries has done enough.
  local is_sparse = n <= SHRINKING and log.cap > IN_HAND and n * 4 <= log.cap and gone < BLOCK
  if form ~= log.slot or log.cap == 0 or n <= LARGE and n == log.cap or is_sparse then
    ring_rewrite(log, form, most, lasts)
    is_covered = true
  elseif log.cap > LARGE then
    ring_room(log, most)
  end
  n = log.n

  log.n = n + 1
  for i = 1, log.limits do
    log.used[i], log.reserved[i] = log.used[i] + cost, log.reserved[i] + reserved
  end
  local place = ring_place(log, n)
  call('SETRANGE', log.key, log.start + place * log.slot.size, ring_slot(log.slot, at, ticket, cost, reserved > 0))
  place = place + 1
  if log.cap > LARGE and place % BLOCK == 0 then
    local first = log.start + (place - BLOCK) * log.slot.size
    local block = call('GETRANGE', log.key, first, first + BLOCK * log.slot.size - 1)
    call('SETRANGE', log.key, ring_sums(log, place / BLOCK - 1), ring_sum(log.slot, block, 1))
  end
  ring_keep(log)
  -- Only a script's first write is refused for lack of memory, and this one never is.
  if not is_covered or log.is_copied then
    expire(log.key, lasts)
  end
  return ticket
end
