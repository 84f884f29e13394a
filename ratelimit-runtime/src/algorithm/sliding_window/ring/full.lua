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

-- Commits a reservation at what the call did cost. What is less lowers its entry, what is more is
-- an entry of its own; where it has left a window, all of it is one.
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
  local lasts = math.max(ring_rest_of_block(log), math.min(log.newest + longest - now, longest))
  ring_lasts(log, lasts)
  if log.exists then
    ring_keep(log)
    expire(log.key, lasts)
  else
    set(log.key, ring_head(log) .. ring_extras(log), lasts)
  end
end

-- A refusal blocks the key.
local function ring_offence(log, request)
  local block = block_after(request, log.strikes)
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
  log.range = request.longest_block
  if log.blocked_until - now > blocked_for then
    ring_block(log, now + log.block, log.block, log.strikes, longest)
  elseif forgets_strikes(request, log.blocked_until) then
    log.blocked_until, log.block, log.strikes = 0, 0, 0
  end
  if log.newest > now then
    local lasts, is_cut = math.max(longest, ring_rest_of_block(log)), false
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
    if log.blocked_until > 0 or log.strikes > 0 then
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
      -- What is stored wrong leaves no more than nothing, so that a reply is believed.
      skip[i], used[i], reserved[i] = first, math.max(used[i] - c, 0), reserved[i] - h
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
    if operation ~= 'peek' and request.block > 0 and blocked_for == 0 then
      blocked_for = ring_offence(log, request)
    end
    -- Without the open reservations, how long would it wait?
    local is_open, released = false, 0
    for i = 1, n do
      is_open = is_open or reserved[i] > 0
    end
    for i = 1, is_open and n or 0 do
      local over, own = used[i] + cost - request.max[i], wait[i]
      if reserved[i] > 0 then
        own = 0
        if over > reserved[i] then
          local _, _, _, frees = ring_walk(log, skip[i], math.huge, over - reserved[i], true)
          own = (frees or at) + request.window[i] - at
        end
      end
      released = math.max(released, own)
    end
    return verdict(wait, left, reset, at, blocked_for, life, 0, is_open and released)
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
