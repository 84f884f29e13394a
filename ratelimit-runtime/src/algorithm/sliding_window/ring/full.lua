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
  -- As few numbers as a slot can be read in: of a narrow one, the last four bytes are a byte of
  -- something else and the cost.
  local format, count, scale = 'dI4', 2, 256
  if slot == WIDE then
    format, count, scale = 'I7I7I7', 3, 1
  end
  local numbers = { struct.unpack('<' .. string.rep(format, BLOCK), bytes, at) }
  local cost, reserved, mark = 0, 0, slot.reserved
  for i = count, count * BLOCK, count do
    local its = numbers[i]
    its = (its - its % scale) / scale
    if its >= mark then
      its = its - mark
      reserved = reserved + its
    end
    cost = cost + its
  end
  local ticket, lead = struct.unpack(slot.format, bytes, at + (BLOCK - 1) * slot.size)
  return struct.pack(SUMS.format, ticket - lead, cost, reserved)
end

-- Writes a log that is short anew, with other room: half as many slots again as it needs, or `most`
-- if that is enough. Its slots have the form `form`, and the dead are left out where they are many.
local function ring_rewrite(log, form, most, lasts)
  work = work + 12
  local function capacity(needed)
    if log.n == 0 then
      return 1
    end
    local cap = math.ceil(needed * 1.5 / 4) * 4
    if most >= needed and most < cap then
      cap = most
    end
    if cap > LARGE then
      cap = math.ceil((cap + ring_spare(cap)) / BLOCK) * BLOCK
    end
    return cap
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
      for block = 0, math.floor(log.n / BLOCK) - 1 do
        sums = sums .. ring_sum(log.slot, slots, block * BLOCK * log.slot.size + 1)
      end
    end
    log.head = offset
    return cap, slots, sums
  end

  local function sweep()
    local slots, sums = {}, {}
    local skip, used, reserved = ring_zeros(log.limits), ring_zeros(log.limits), ring_zeros(log.limits)
    local cost, its_reserved, n = 0, 0, 0
    for i = 0, log.n - 1 do
      local at, c, h, ticket = ring_entry(log, i, BLOCK)
      if c > 0 then
        n = n + 1
        if form == log.slot then
          local offset = log.shift + (ring_place(log, i) - log.from) * form.size
          slots[n] = string.sub(log.bytes, offset + 1, offset + form.size)
        else
          slots[n] = ring_slot(form, at, ticket, c, h > 0)
        end
        cost, its_reserved = cost + c, its_reserved + h
        if n % BLOCK == 0 then
          sums[n / BLOCK] = struct.pack(SUMS.format, at, cost, its_reserved)
          cost, its_reserved = 0, 0
        end
        for view = 1, log.limits do
          if i < log.skip[view] then
            skip[view] = skip[view] + 1
          else
            used[view], reserved[view] = used[view] + c, reserved[view] + h
          end
        end
      end
    end
    log.slot, log.head, log.n, log.refunds = form, 0, n, 0
    log.skip, log.used, log.reserved = skip, used, reserved
    local cap = capacity(n + 1)
    return cap, table.concat(slots), cap > LARGE and table.concat(sums) or ''
  end

  local cap, slots, sums
  local has_new_sums = log.cap <= LARGE and capacity(log.n + 1) > LARGE
  if form ~= log.slot or log.n <= LARGE and log.refunds * (has_new_sums and log.n or 2) >= log.n then
    cap, slots, sums = sweep()
  else
    cap, slots, sums = moved()
  end
  log.cap, log.moving, log.lower, log.gap = cap, false, 0, 0
  local function padded(bytes, size)
    return bytes .. string.rep('\0', size - #bytes)
  end
  slots = padded(slots, cap * log.slot.size)
  sums = padded(sums, cap > LARGE and cap / BLOCK * SUMS.size or 0)
  set(log.key, ring_head(log) .. slots .. sums .. (ring_has_extras(log) and ring_extras(log) or ''), lasts)
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
  local counts, blocked = at > now and longest or ticket + longest - now, 0
  if log.strikes > 0 then
    blocked = log.blocked_until + log.range - now
  end
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

-- The operations on a ring. `log.lua` describes its format.

-- Refunds the entry with this ticket, or makes it an ordinary one: of what did cost something else,
-- `staying` gives what is left in it. Returns whether it was there, and what has stayed.
local function ring_change(log, operation, ticket, amount, staying)
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
    -- The block that is being written has no sums yet.
    if log.cap > LARGE and log.n - i > (log.head + log.n) % log.cap % BLOCK then
      local block = math.floor(ring_place(log, i) / BLOCK)
      local last, all, all_reserved = sums_of(block)
      call('SETRANGE', log.key, ring_sums(log, block), struct.pack(SUMS.format, last, all - cost, all_reserved - reserved))
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
      local all
      if log.cap > LARGE and tail % BLOCK == 0 then
        sums = sums or call('GETRANGE', log.key, ring_sums(log, 0), ring_sums(log, log.cap / BLOCK) - 1)
        all = struct.unpack('<d', sums, (tail / BLOCK - 1) * SUMS.size + 9)
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
          break
        end
        log.n = log.n - 1
      end
    end
    if log.n == 0 then
      log.head, log.refunds, log.moving, log.lower, log.gap = 0, 0, false, 0, 0
    end
    for view = 1, log.limits do
      log.skip[view] = math.min(log.skip[view], log.n)
    end
  end

  local i, at, cost, reserved = find()
  if not i or cost == 0 or (operation == 'commit' or staying) and reserved == 0 then
    return { 0 }
  end
  local function write(i, at, cost, reserved, ticket, kept)
    local slot = ring_place(log, i)
    call('SETRANGE', log.key, log.start + slot * log.slot.size, ring_slot(log.slot, at, ticket, kept, false))
    lessen(i, cost - kept, reserved)
  end

  local stays = staying and staying(at, cost) or operation == 'commit' and cost or 0
  if stays > 0 then
    write(i, at, cost, reserved, ticket, stays)
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
  log.from, log.to = 0, 0
  ring_keep(log)
  return { 1, stays }
end

-- Commits a reservation at what the call did cost. What is less lowers its entry, what is more is an
-- entry of its own; where it has left a window, all of it is one.
local function ring_commit_actual(log, request, at, gone)
  local changed = ring_change(log, 'commit_actual', request.ticket, request.cost, function(time, cost)
    for i = 1, request.n do
      if time + request.window[i] <= at then
        return 0
      end
    end
    return math.min(request.actual, cost)
  end)
  if changed[1] == 0 and (request.actual == 0 or at < request.ticket + request.longest) then
    return { 0 }
  end
  local debt, free = request.actual - (changed[2] or 0), math.huge
  for i = 1, request.n do
    free = math.min(free, math.max(math.min(2 * request.max[i], MOST_COUNTED) - log.used[i], 0))
  end
  local charged = math.min(debt, free)
  if charged > 0 then
    ring_append(log, at, charged, 0, request.max[log.widest], request.longest, gone)
  end
  return { 1, 0, 0, 0, 0, debt - charged, 0 }
end

-- Notes a block, and lets the key live as long as that and its entries.
local function ring_block(log, blocked_until, block, strikes, longest)
  log.blocked_until, log.block, log.strikes = blocked_until, block, strikes
  local range = strikes > 0 and log.range or 0
  local lasts = math.max(left_of_block(blocked_until, block) + range, math.min(log.newest + longest - now, longest))
  ring_lasts(log, lasts)
  if log.exists then
    ring_keep(log)
    expire(log.key, lasts)
  else
    set(log.key, ring_head(log) .. ring_extras(log), lasts)
  end
end

-- A refusal blocks the key, each time twice as long as before, up to the longest block.
local function ring_offence(log, request)
  local block = math.min(request.block * 2 ^ log.strikes, math.max(request.block, log.range))
  ring_block(log, now + block, block, log.strikes + 1, request.longest)
  return block
end

local function ring(key, request)
  local operation, n, cost, longest = request.operation, request.n, request.cost, request.longest
  local log = ring_load(key, n, request.widest)
  if not log then
    return failed('WRONGTYPE the key does not hold a rate limiter log of these limits')
  end

  -- A clock that has stepped back is read as standing still, so that nothing is admitted twice.
  log.newest = log.n > 0 and ring_entry(log, log.n - 1, 1) or 0
  local at = math.max(now, log.newest)
  local life = math.huge
  local blocked_for = left_of_block(log.blocked_until, log.block)
  local charges = operation == 'acquire' or operation == 'reserve'
  -- How long strikes are remembered after a block.
  log.range = request.longest_block > request.block and request.longest_block or 0
  if log.blocked_until - now > blocked_for then
    ring_block(log, now + log.block, log.block, log.strikes, longest)
  elseif charges and now >= log.blocked_until + log.range then
    log.blocked_until, log.block, log.strikes = 0, 0, 0
  end
  if log.newest > now then
    local lasts, is_cut = math.max(longest, blocked_for), false
    life, is_cut = life_of(key, lasts)
    if is_cut then
      ring_lasts(log, lasts)
      call('SETRANGE', key, 11, struct.pack('<d', log.ends))
    end
  end
  if operation == 'block' then
    ring_block(log, now + request.block, request.block, log.strikes, longest)
    return { 1 }
  end
  if operation == 'unblock' then
    if blocked_for > 0 then
      log.blocked_until, log.block, log.strikes = 0, 0, 0
      if call('PTTL', key) > lasting_millis(longest) then
        expire(key, ring_lasts(log, longest))
      end
      ring_keep(log)
    end
    return { blocked_for > 0 and 1 or 0 }
  end

  local skip, used, reserved = log.skip, log.used, log.reserved
  local gone = 0
  if log.newest + longest <= at then
    -- All of it has expired.
    log.head, log.n, log.refunds = 0, 0, 0
    log.moving, log.lower, log.gap = false, 0, 0
    for i = 1, n do
      skip[i], used[i], reserved[i] = 0, 0, 0
    end
  else
    for i = 1, n do
      local first, c, h = ring_walk(log, skip[i], at - request.window[i], math.huge)
      skip[i], used[i], reserved[i] = first, used[i] - c, reserved[i] - h
    end
    gone = ring_drop(log)
  end
  if operation == 'refund' or operation == 'release' or operation == 'commit' then
    return { ring_change(log, operation, request.ticket, request.cost)[1] }
  elseif operation == 'commit_actual' then
    return ring_commit_actual(log, request, at, gone)
  end
  if not charges and operation ~= 'peek' then
    return unknown(request)
  end

  local wait, left, reset = {}, {}, {}
  local refused = false
  for i = 1, n do
    local max, window = request.max[i], request.window[i]
    local over = used[i] + cost - max
    wait[i], left[i] = 0, used[i] < max and max - used[i] or 0
    reset[i] = log.n > 0 and math.max(log.newest + window - at, 0) or 0
    -- Also where it is no number.
    if not (over <= 0) then
      local _, _, _, frees = ring_walk(log, skip[i], math.huge, over)
      wait[i] = (frees or at) + window - at
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
      local unreserved = not (over <= 0) and reserved[i] == 0 and wait[i] or 0
      if over > reserved[i] and reserved[i] > 0 then
        local _, _, _, frees = ring_walk(log, skip[i], math.huge, over - reserved[i], true)
        unreserved = (frees or at) + request.window[i] - at
      end
      exceeded = exceeded or unreserved > 0
      wait[i] = math.min(wait[i], math.max(unreserved, RESERVED_WAIT))
    end
    if exceeded and operation ~= 'peek' and request.block > 0 and blocked_for == 0 then
      blocked_for = ring_offence(log, request)
    end
    return verdict(wait, left, reset, at, blocked_for, life, open)
  end
  if operation == 'peek' or blocked_for > 0 or cost == 0 then
    return verdict(wait, left, reset, at, blocked_for, life, 0)
  end

  for i = 1, n do
    left[i], reset[i] = left[i] - cost, request.window[i]
  end
  local most = request.max[log.widest]
  local ticket = ring_append(log, at, cost, operation == 'reserve' and cost or 0, most, longest, gone)
  return verdict(wait, left, reset, at, 0, longest, ticket)
end
