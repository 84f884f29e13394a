-- Making room in a long ring, a bounded piece of work per call.
--
-- New slots are added at the physical end. If the log is wrapped around it, they are a gap in the
-- middle, and each admission moves a few blocks of 256 slots from before the gap to behind it,
-- until the gap is in front of the first entry, where it is free room. Where many have been
-- refunded, blocks are merged on the way.

local AT_ONCE, MERGED_AT_ONCE, STEP, TRIMMED = 4, 3, 8192, 1500000

-- How many free slots are enough until the gap is through.
local function ring_spare(cap)
  return 16 + (cap - cap % LARGE) / LARGE
end

local function ring_has_dead(log)
  return log.refunds * 4 >= log.n
end

-- Begins to grow: to half as many slots again as there are living entries, by a step, or to `most`
-- if that is enough.
local function ring_grow(log, most)
  work = work + 12
  local old, sums = log.cap, ring_sums(log, 0)
  local cap = math.max(old + LARGE, math.min((log.n - log.refunds) * 1.5, old + STEP))
  local enough = most + ring_spare(most)
  if enough > old and enough < cap then
    cap = enough
  end
  cap = math.ceil(cap / BLOCK) * BLOCK
  sums = call('GETRANGE', log.key, sums, ring_sums(log, old / BLOCK) - 1)
  log.cap, log.moving = cap, true
  if log.head + log.n > old then
    log.lower, log.gap = old - log.head, cap - old
  elseif ring_has_dead(log) then
    -- Nothing is in the way of the new room, so the gap begins as an empty one.
    log.lower = math.max(log.n - (log.head + log.n) % BLOCK, 0)
  end
  -- The end first: that makes the room, or is refused for lack of memory.
  ring_keep(log)
  call('SETRANGE', log.key, ring_sums(log, 0), sums)
end

-- Ends the move of a gap that is in front of the first entry.
local function ring_moved(log)
  log.moving = false
  if ring_has_dead(log) then
    -- Those that have expired since are still counted.
    log.refunds = math.min(log.refunds, math.floor(log.n / 4))
  end
  if ring_sums(log, log.cap / BLOCK) <= TRIMMED then
    -- A copy without the room that Redis has added on its own account, for a string that might go
    -- on growing.
    redis.pcall('BITOP', 'OR', log.key, log.key)
    -- It has no expiry.
    log.is_copied = true
  end
end

-- Moves the gap.
local function ring_move(log)
  work = work + 12
  if log.lower == 0 then
    return ring_moved(log)
  end
  local key, size, blocks = log.key, log.slot.size, log.cap / BLOCK
  local merging = ring_has_dead(log)

  local function slots_at(block)
    return log.start + block * BLOCK * size
  end

  local function sums_of(block)
    return struct.unpack(SUMS.format, call('GETRANGE', key, ring_sums(log, block), ring_sums(log, block + 1) - 1))
  end

  -- Whether all of the first `count` entries before `to`, or none, have left each window.
  local function is_whole(to, count)
    for view = 1, log.limits do
      if log.skip[view] > to - count and log.skip[view] < to then
        return false
      end
    end
    return true
  end

  -- Takes a block of dead entries out, that is before the entry `to`.
  local function shorten(to)
    for view = 1, log.limits do
      if log.skip[view] >= to then
        log.skip[view] = log.skip[view] - BLOCK
      end
    end
    log.n, log.lower, log.gap = log.n - BLOCK, log.lower - BLOCK, log.gap + BLOCK
    log.refunds = math.max(log.refunds - BLOCK, 0)
  end

  -- The live entries of two blocks, in the slots of one: dead ones fill it. Nil if there are too
  -- many.
  local function merged(bytes)
    local before, first = log.slot.before_cost, 0
    local dead = string.rep('\0', size - before)
    while string.sub(bytes, first * size + before + 1, (first + 1) * size) ~= dead do
      first = first + 1
      if first > BLOCK then
        return nil
      end
    end
    local each = string.rep('.', before) .. '(' .. string.rep('.', size - before) .. ')'
    local rest = string.gsub(string.sub(bytes, first * size + 1), each, { [dead] = '' })
    local missing = BLOCK - first - #rest / size
    if missing < 0 then
      return nil
    end
    local filling = string.rep(string.sub(bytes, first * size + 1, (first + 1) * size), missing)
    return string.sub(bytes, 1, first * size) .. filling .. rest
  end

  local tries = merging and MERGED_AT_ONCE or 0
  for _ = 1, AT_ONCE do
    if log.lower == 0 then
      break
    end
    local block = math.floor((log.head + log.lower - 1) % log.cap / BLOCK)
    local moved = (block + log.gap / BLOCK) % blocks
    local whole = log.lower >= BLOCK
    local last, cost, reserved = sums_of(block)
    if whole and cost == 0 and is_whole(log.lower, BLOCK) then
      shorten(log.lower)
    else
      local count = math.min(log.lower, BLOCK)
      local place = slots_at(block) + (log.head + log.lower - count) % BLOCK * size
      local entries, both
      if log.gap > 0 or tries > 0 then
        entries = call('GETRANGE', key, place, place + count * size - 1)
      end
      local above = (moved + 1) % blocks
      if tries > 0 and whole and log.n - log.lower >= BLOCK and is_whole(log.lower + BLOCK, 2 * BLOCK) then
        tries = tries - 1
        both = merged(entries .. call('GETRANGE', key, slots_at(above), slots_at(above + 1) - 1))
      end
      if both then
        local newest, more, more_reserved = sums_of(above)
        call('SETRANGE', key, slots_at(above), both)
        call('SETRANGE', key, ring_sums(log, above), struct.pack(SUMS.format, newest, cost + more, reserved + more_reserved))
        shorten(log.lower + BLOCK)
      else
        if log.gap > 0 then
          call('SETRANGE', key, place + (moved - block) * BLOCK * size, entries)
          call('SETRANGE', key, ring_sums(log, moved), struct.pack(SUMS.format, last, cost, reserved))
        end
        log.lower = log.lower - count
      end
    end
  end
  if log.lower == 0 then
    log.head, log.gap = (log.head + log.gap) % log.cap, 0
  end
  log.from, log.to = 0, 0
end

-- Sees to it that there is room for an entry.
local function ring_room(log, most)
  if log.moving then
    ring_move(log)
  elseif log.n + ring_spare(log.cap) >= log.cap then
    ring_grow(log, most)
  end
  -- Only if the limit of a call's work has been too low.
  while log.n + log.gap >= log.cap do
    if log.moving then
      ring_move(log)
    else
      ring_grow(log, most)
    end
  end
end
