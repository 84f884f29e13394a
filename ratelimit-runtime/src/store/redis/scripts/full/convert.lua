-- Turns the log that is a sorted set into a ring: each member becomes an entry of cost 1 with its own ticket, in one SET.
-- If memory is short, that is what fails, and the set is as it was.
--
-- needs: common zset ring_log

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
      -- What remembers the newest ticket, if that has been refunded. The block, if there was one, is over.
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
