-- Turns the log that is a sorted set into a ring: each member becomes an entry of cost 1 with its
-- own ticket, in one SET. If memory is short, that is what fails, and the set is as it was.

local function convert(key, request)
  local members = call('ZRANGE', key, 0, -1, 'WITHSCORES')
  local log = ring_new(key, request.n, request.widest)
  local times, tickets, newest = {}, {}, 0
  for i = 1, #members, 2 do
    local time, ticket = zset_entry(members[i], members[i + 1])
    if time then
      times[#times + 1], tickets[#tickets + 1] = time, ticket
      newest, log.ticket = time, ticket
      if ticket - time >= NARROW.largest_lead then
        log.slot = WIDE
      end
    else
      -- What remembers the newest ticket, if that has been refunded, and strikes. The block, if
      -- there was one, is over.
      local given, remembered, ends, strikes = zset_meta(members[i], members[i + 1])
      if not given then
        return WRONG_LOG
      end
      log.ticket = math.max(log.ticket, remembered)
      if strikes > 0 or ends > now then
        log.blocked_until, log.block, log.strikes = ends, given, strikes
      end
    end
  end

  local slots = {}
  for i = 1, #times do
    slots[i] = ring_slot(log.slot, times[i], tickets[i], 1, false)
  end
  log.cap, log.n = #times, #times
  for i = 1, request.n do
    log.used[i] = log.n
  end
  log.range = request.longest_block
  local lasts = math.max(request.longest, ring_rest_of_block(log))
  log.ends = EXPIRE == 'PEXPIRE' and 0 or now + lasts
  local extras = ring_has_extras(log) and ring_extras(log) or ''
  set(key, ring_head(log) .. table.concat(slots) .. extras, lasts)
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
  if operation == 'commit_actual' then
    -- What the reservation was for is an entry of a ring, if it has left since.
    if request.actual == 0 or now < request.ticket + request.longest then
      return { 0 }
    elseif kept == 'zset' then
      if call('ZCARD', key) > LARGEST_CONVERTED then
        return failed('ERR a sorted set of more than ' .. LARGEST_CONVERTED .. ' members takes no costs that are known afterwards')
      end
      local wrong = convert(key, request)
      if wrong then
        return wrong
      end
    end
    return ring(key, request)
  elseif operation == 'commit' or operation == 'release' then
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
