-- Turns the log that is a sorted set into a ring: each member becomes an entry of cost 1 with its
-- own ticket, in one SET. If memory is short, that is what fails, and the set is as it was.

local function convert(key, request)
  local members = call('ZRANGE', key, 0, -1, 'WITHSCORES')
  local newest, ticket = 0, 0
  local times, tickets = {}, {}
  for i = 1, #members, 2 do
    local time, number = zset_entry(members[i], members[i + 1])
    if time then
      times[#times + 1], tickets[#tickets + 1] = time, number
      newest, ticket = time, number
    else
      -- What remembers the newest ticket, if that has been refunded. The block, if there was one,
      -- is over.
      local _, remembered = zset_meta(members[i], members[i + 1])
      if not remembered then
        return WRONG_LOG
      end
      ticket = math.max(ticket, remembered)
    end
  end

  local n = #times
  local first = tickets[1] or 0
  local slot = NARROW
  for i = 1, n do
    if tickets[i] - times[i] >= NARROW.largest_lead or tickets[i] - first >= NARROW.largest_ticket then
      slot = WIDE
    end
  end
  local slots, skip, used, reserved = {}, {}, {}, {}
  for i = 1, n do
    slots[i] = ring_slot(slot, first, times[i], tickets[i], 1, false)
  end
  for i = 1, request.n do
    skip[i], used[i], reserved[i] = 0, n, 0
  end
  if n == BLOCK then
    slots[n + 1] = struct.pack(SUMS.format, newest, n, 0)
  end
  local header = ring_header {
    slot = slot, limits = request.n, cap = n, head = 0, n = n, refunds = 0, newest = newest, last = newest,
    ticket = ticket, blocked_until = 0, block = 0, base = first, open = 0, open_reserved = 0,
    skip = skip, used = used, reserved = reserved,
  }
  set(key, header .. table.concat(slots), request.longest)
end

-- The log of a sliding window: a sorted set or a ring, whichever the key holds.
--
-- Only an admission turns a sorted set into a ring, when it needs a weight, a reservation or a
-- limit that the set has no room for, and unless the store keeps to sorted sets. Everything else is
-- answered in the layout that is found.

local ZSET, RING = 1, 2
local LARGEST_ZSET, LARGEST_CONVERTED, LARGEST_IN_ZSET = 126, 256, 1000

local function log(key, request)
  local kept = call('TYPE', key).ok
  if kept == 'string' then
    return ring(key, request)
  elseif kept ~= 'zset' and kept ~= 'none' then
    return failed('WRONGTYPE the key does not hold a rate limiter log')
  end

  local operation = request.operation
  if operation == 'commit' or operation == 'release' then
    -- Reservations are only in rings.
    return { 0 }
  end
  local needs_ring = request.layout == RING and kept == 'none' or operation == 'reserve' or request.cost > 1
  for i = 1, request.n do
    needs_ring = needs_ring or request.max[i] > LARGEST_ZSET
  end
  if not needs_ring or request.layout == ZSET then
    return zset(key, request)
  elseif kept == 'none' then
    return ring(key, request)
  elseif operation ~= 'acquire' and operation ~= 'reserve' then
    return zset(key, request)
  end

  -- First as the set would decide, which writes no more than a block.
  request.operation = 'peek'
  local verdict = zset(key, request)
  request.operation = operation
  if verdict.err then
    return verdict
  elseif verdict[1] == 1 and request.cost > 0 then
    if call('ZCARD', key) <= LARGEST_CONVERTED then
      return convert(key, request) or ring(key, request)
    elseif operation == 'reserve' or request.cost > LARGEST_IN_ZSET then
      return failed('ERR a sorted set of more than ' .. LARGEST_CONVERTED .. ' members takes neither reservations nor costs'
        .. ' above ' .. LARGEST_IN_ZSET)
    end
  end
  request.operation = 'acquire'
  return zset(key, request)
end

return answering(log)
