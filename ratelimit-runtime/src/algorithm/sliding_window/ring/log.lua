-- An exact sliding window of calls of any weight, as one string.
--
--   head      version, flags (1 wide slots, 2 a gap moves, 4 extras, 8 sums), how many limits;
--             slots in the ring; refunds since the dead were swept out; until when the expiry is
--             written, 0 if it is written each time; the slot of the first entry, how many entries;
--             the newest ticket; the cost that counts in the longest window
--   views     for each limit but the first of the longest window: how many of the first entries
--             have left its window; the cost of all others
--   slots     ticket, how far it is ahead of the entry's time, cost (and a bit if reserved); wide
--             once there is a number that narrow ones do not hold
--   sums      above 512 slots, for each 256 of them, once all are written: last time, cost and
--             reserved cost
--   extras    end of the block of the key, how long it was given, blocks in a row; how many of the
--             first entries are before a gap, and how many slots that has (see below); for each
--             limit the reserved cost that counts
--
-- An admission changes the head from the slot of the first entry on, and a slot. It leaves no entry
-- in front that has left the longest window.
--
-- A ticket is the entry's time, or one more than the last ticket; none is given twice while the key
-- lives. A refunded entry stays where it is with a cost of 0, unless it is the last.
--
-- The sums keep every call short: where many entries have to be passed, they are taken by 256.
--
-- A call runs the whole file, and Lua makes every function anew: what few calls need is made inside
-- of what needs it.

local IN_HAND, BLOCK, LARGE = 16, 256, 512
local HEAD = { format = '<BBBI4I4dI4I4dd', size = 43 }
local VIEW = { format = '<I4d', size = 12 }
local SUMS = { format = '<ddd', size = 24 }
local EXTRAS = { format = '<dddI4I4', size = 32 }
local WIDE_SLOTS, MOVING, WITH_EXTRAS, WITH_SUMS = 1, 2, 4, 8
-- By `as_cost` a slot is read as two numbers, of which only the cost is one.
local NARROW = { flag = 0, format = '<I7I2I3', as_cost = 'I9I3', size = 12, reserved = 2 ^ 23, largest_lead = 2 ^ 16, before_cost = 9 }
local WIDE = { flag = WIDE_SLOTS, format = '<I7I7I7', as_cost = 'I14I7', size = 21, reserved = 2 ^ 52, largest_lead = 2 ^ 56, before_cost = 14 }

local function ring_zeros(limits)
  local zeros = {}
  for i = 1, limits do
    zeros[i] = 0
  end
  return zeros
end

-- Of one that is not there yet. `widest` is the first limit of the longest window.
local function ring_new(key, limits, widest)
  return {
    key = key, limits = limits, widest = widest, start = HEAD.size + (limits - 1) * VIEW.size, exists = false,
    slot = NARROW, cap = 0, refunds = 0, ends = 0, head = 0, n = 0, ticket = 0,
    skip = ring_zeros(limits), used = ring_zeros(limits), reserved = ring_zeros(limits),
    -- `range`: how long strikes are remembered after a block.
    blocked_until = 0, block = 0, strikes = 0, range = 0,
    -- The first `lower` entries are before a gap of `gap` slots.
    moving = false, lower = 0, gap = 0,
    -- The slots from `from` to before `to` are in `bytes`, after `shift` others.
    bytes = '', shift = 0, from = 0, to = 0,
  }
end

-- How long a block, and what is remembered of it, goes on.
local function ring_rest_of_block(log)
  return log.blocked_until + (log.strikes > 0 and log.range or 0) - now
end

-- Where the extras are: behind slots and sums.
local function ring_end(log)
  local sums = log.cap > LARGE and math.floor(log.cap / BLOCK) * SUMS.size or 0
  return log.start + log.cap * log.slot.size + sums
end

-- Nil if the key holds something else.
local function ring_load(key, limits, widest)
  local log = ring_new(key, limits, widest)
  local bytes = call('GETRANGE', key, 0, log.start + IN_HAND * NARROW.size - 1)
  if bytes == '' then
    return log
  elseif #bytes < log.start then
    return nil
  end
  local version, flags, stored, cap, refunds, ends, head, n, ticket, used, at = struct.unpack(HEAD.format, bytes)
  log.slot = flags % 2 == 1 and WIDE or NARROW
  log.cap, log.refunds, log.ends, log.head, log.n, log.ticket = cap, refunds, ends, head, n, ticket
  local is_known = version == 1 and flags < 16 and stored == limits and (flags >= WITH_SUMS) == (cap > LARGE)
  local is_possible = n <= cap and (head < cap or cap == 0) and ticket >= 0 and ticket < 2 ^ 53
    and (cap <= LARGE or cap % BLOCK == 0)
  if not is_known or not is_possible or call('STRLEN', key) < ring_end(log) then
    return nil
  end
  for i = 1, limits do
    if i == widest then
      log.used[i] = used
    else
      log.skip[i], log.used[i], at = struct.unpack(VIEW.format, bytes, at)
      if log.skip[i] > n then
        return nil
      end
    end
  end
  log.moving = flags % (2 * MOVING) >= MOVING
  if flags % (2 * WITH_EXTRAS) >= WITH_EXTRAS then
    local place = ring_end(log)
    local extras = call('GETRANGE', key, place, place + EXTRAS.size + 8 * limits - 1)
    if #extras < EXTRAS.size + 8 * limits then
      return nil
    end
    log.blocked_until, log.block, log.strikes, log.lower, log.gap, at = struct.unpack(EXTRAS.format, extras)
    for i = 1, limits do
      log.reserved[i], at = struct.unpack('<d', extras, at)
    end
    if log.lower > n or log.gap > cap - n or not (log.block >= 0 and log.blocked_until >= 0 and log.strikes >= 0) then
      return nil
    end
  end
  log.exists, log.bytes, log.shift = true, bytes, log.start
  log.to = math.min(math.floor((#bytes - log.start) / log.slot.size), cap)
  return log
end

local function ring_has_extras(log)
  local is_rare = log.blocked_until > 0 or log.strikes > 0 or log.moving
  for i = 1, log.limits do
    is_rare = is_rare or log.reserved[i] > 0
  end
  return is_rare
end

local function ring_extras(log)
  local bytes = struct.pack(EXTRAS.format, log.blocked_until, log.block, log.strikes, log.lower, log.gap)
  for i = 1, log.limits do
    bytes = bytes .. struct.pack('<d', log.reserved[i])
  end
  return bytes
end

local function ring_head(log)
  local flags = log.slot.flag + (log.moving and MOVING or 0) + (ring_has_extras(log) and WITH_EXTRAS or 0)
    + (log.cap > LARGE and WITH_SUMS or 0)
  local bytes = struct.pack(HEAD.format, 1, flags, log.limits, log.cap, log.refunds, log.ends, log.head, log.n,
    log.ticket, log.used[log.widest])
  for i = 1, log.limits do
    if i ~= log.widest then
      bytes = bytes .. struct.pack(VIEW.format, log.skip[i], log.used[i])
    end
  end
  return bytes
end

local function ring_slot(slot, at, ticket, cost, is_reserved)
  return struct.pack(slot.format, ticket, ticket - at, is_reserved and cost + slot.reserved or cost)
end

local function ring_place(log, i)
  if i >= log.lower then
    i = i + log.gap
  end
  return (log.head + i) % log.cap
end

-- Where the sums of a block are, and what is behind the last ones.
local function ring_sums(log, block)
  return log.start + log.cap * log.slot.size + block * SUMS.size
end

-- Writes all but slots and sums.
local function ring_keep(log)
  if ring_has_extras(log) then
    call('SETRANGE', log.key, ring_end(log), ring_extras(log))
  end
  call('SETRANGE', log.key, 0, ring_head(log))
end

-- Time, cost, reserved cost and ticket of an entry. If it has to be read, so are up to `ahead` from
-- it on.
local function ring_entry(log, i, ahead)
  local size, slot = log.slot.size, ring_place(log, i)
  local from = log.from
  if slot < from or slot >= log.to then
    local to = math.min(slot + ahead, log.cap)
    log.bytes = call('GETRANGE', log.key, log.start + slot * size, log.start + to * size - 1)
    log.from, log.to, log.shift = slot, to, 0
    from = slot
  end
  local ticket, lead, cost = struct.unpack(log.slot.format, log.bytes, log.shift + (slot - from) * size + 1)
  if cost >= log.slot.reserved then
    cost = cost - log.slot.reserved
    return ticket - lead, cost, cost, ticket
  end
  return ticket - lead, cost, 0, ticket
end

-- Goes past entries, from `i` on, up to the first that is newer than `cut`, or with which their
-- cost, or if `unreserved` what of it is not reserved, reaches `enough`. Returns that entry, cost
-- and reservations of those before, its time.
local function ring_walk(log, i, cut, enough, unreserved)
  local cost, reserved = 0, 0
  local n = log.n
  local ahead = 2
  local stop = 0 -- up to here, entry by entry
  while i < n do
    local at, c, h = ring_entry(log, i, ahead)
    if at > cut or cost + c - (unreserved and reserved + h or 0) >= enough then
      return i, cost, reserved, at
    end
    local slot = ring_place(log, i)
    local straight = math.min((i < log.lower and log.lower or n) - i, log.cap - slot)
    if i >= stop and slot % BLOCK == 0 and straight >= BLOCK and log.cap > LARGE then
      local blocks = math.floor(straight / BLOCK)
      local first = ring_sums(log, slot / BLOCK)
      local sums = call('GETRANGE', log.key, first, first + blocks * SUMS.size - 1)
      for block = 0, blocks - 1 do
        at, c, h = struct.unpack(SUMS.format, sums, block * SUMS.size + 1)
        if at > cut or cost + c - (unreserved and reserved + h or 0) >= enough then
          stop = i + BLOCK
          break
        end
        cost, reserved, i = cost + c, reserved + h, i + BLOCK
      end
    else
      cost, reserved, i = cost + c, reserved + h, i + 1
      ahead = math.min(ahead * 4, BLOCK)
    end
  end
  return i, cost, reserved
end
