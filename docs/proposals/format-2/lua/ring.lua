-- One string: a head of 39 bytes (form, slots, slot of the first entry, entries, newest ticket, cost that counts, what the expiry
-- covers), and slots of 12 bytes (ticket, ticket less time, cost).
-- Record of an admission: the head. Of a refusal: cost that counts, when there is room, time of the newest.
for q = 2, #ARGV do
  local operation, layout, calls, covers, limits, cost, block, longest, max, window = parse(QUESTION, ARGV[q])
  local is_acquire = operation == 1
  local HEAD, START, SLOT, SIZE, FORM, IN_HAND = '<I3I4I4I4ddd', 39, '<I7I2I3', 12, 65537, '230'
  local is_quick = operation % 2 == 1 and operation < 4 and limits == 1 and cost > 0 and is_server and cost < 8388608
  local fresh, fresh_head, fresh_expiry, later_expiry, admits
  local cut, slot_of_now = now - window, pack(SLOT, now, 0, cost)
  for i = answered + 1, answered + covers do
    count, record = FULL, ''
    repeat
      if not is_quick then
        break
      end
      local key = KEYS[i]
      local bytes = try('GETRANGE', key, '0', IN_HAND)
      if bytes == '' then
        if cost > max or not is_acquire or layout % 16 == 1 then
          break
        end
        if not fresh then
          admits = 1
          if calls > 1 then
            admits = (max - max % cost) / cost
            admits = admits < calls and admits or calls
          end
          local slots, ends = slot_of_now, now + admits - 1 + window
          if admits > 1 then
            local list = { slot_of_now }
            for at = 1, admits - 1 do
              list[at + 1] = pack(SLOT, now + at, at, cost)
            end
            slots = table.concat(list)
          end
          fresh_head = pack(HEAD, FORM, admits, 0, admits, now + admits - 1, admits * cost, ends)
          fresh, fresh_expiry = fresh_head .. slots, EXPIRE(ends)
        end
        local reply = try('SET', key, fresh, EXPIRY, fresh_expiry)
        if reply.ok then
          count, record = admits, fresh_head
        else
          count, record = FAILED, reply.err
        end
        break
      end
      if bytes.err or #bytes < START then
        break
      end
      local form, cap, head, entries, ticket, used, ends = parse(HEAD, bytes)
      if form ~= FORM or cap > 512 or entries > cap or head >= cap or not (ticket < EXACT)
        or #bytes < 231 and #bytes ~= START + cap * SIZE then
        break
      end
      -- The slots from `from` to before `to` are in `slots`, after `shift` bytes.
      local slots, from, to, shift = bytes, 0, (#bytes - START) / SIZE, START
      if ticket >= now then
        -- Ahead of its time, or a clock that was set back.
        local place = START + (head + entries - 1) % cap * SIZE
        local slot = place + SIZE <= #bytes and string.sub(bytes, place + 1, place + SIZE)
          or call('GETRANGE', key, place, place + SIZE - 1)
        if #slot < SIZE then
          break
        end
        local its, lead = parse(SLOT, slot)
        -- (A refunded newest one has left its ticket behind.)
        if its ~= ticket or entries == 0 or ticket - lead > now or ticket - now + calls > 60000 then
          break
        end
      end
      if ticket <= cut then
        head, entries, used = 0, 0, 0
      end
      local gone, free_at, over = 0, 0, used + cost - max
      -- Past what has left the window; if that is not enough, on to what has to leave.
      local at = 0
      local counts_still = false
      while at < entries do
        local place = head + at
        if place >= cap then
          place = place - cap
        end
        if place < from or place >= to then
          from, to, shift = place, place + (at == 0 and 4 or 64), 0
          if to > cap then
            to = cap
          end
          slots = call('GETRANGE', key, START + from * SIZE, START + to * SIZE - 1)
          if #slots ~= (to - from) * SIZE then
            bytes = nil
            break
          end
        end
        local after, lead, weight = parse(SLOT, slots, shift + (place - from) * SIZE + 1)
        free_at = after - lead
        if not counts_still and free_at > cut then
          counts_still, gone, over = true, at, used + cost - max
        end
        if counts_still then
          over = over - weight
          if over <= 0 then
            break
          end
        else
          used = used - weight
        end
        at = at + 1
        gone = counts_still and gone or at
      end
      local spare = max - used
      if not bytes then
        break
      end
      if not (spare >= cost) or not is_acquire then
        if block > 0 and is_acquire then
          break
        end
        local last = 0
        if entries > 0 then
          local place = START + (head + entries - 1) % cap * SIZE
          local slot = place + SIZE <= #bytes and string.sub(bytes, place + 1, place + SIZE)
            or call('GETRANGE', key, place, place + SIZE - 1)
          if #slot < SIZE then
            break
          end
          local its, lead = parse(SLOT, slot)
          last = its - lead
        end
        count, record = STORED + 24, pack('<ddd', used, free_at, last)
        break
      end
      local admitted = 1
      if calls > 1 then
        admitted = (spare - spare % cost) / cost
        admitted = admitted < calls and admitted or calls
      end
      entries, head = entries - gone, (head + gone) % cap
      ticket = ticket < now and now or ticket + 1
      if entries == 0 then
        head = 0
      end
      local added = ticket == now and slot_of_now or pack(SLOT, ticket, ticket - now, cost)
      if admitted > 1 then
        local list, lead = { added }, ticket - now
        for at = 1, admitted - 1 do
          list[at + 1] = pack(SLOT, ticket + at, lead + at, cost)
        end
        added = table.concat(list)
        ticket = ticket + admitted - 1
      end
      used = used + admitted * cost
      local until_then = ticket + window
      if entries + admitted > cap then
        -- To 4, 8, 16, then by half, in whole fours.
        local room = entries + admitted
        local wider = cap < 4 and 4 or cap < 16 and 2 * cap or cap + cap / 2
        wider = wider - wider % 4
        wider = wider > room and wider or room
        local old
        if entries == 0 then
          old = ''
        elseif START + cap * SIZE <= #bytes then
          old = string.sub(bytes, START + 1, START + cap * SIZE)
        else
          old = call('GETRANGE', key, START, START + cap * SIZE - 1)
        end
        if head > 0 then
          old = string.sub(old, head * SIZE + 1) .. string.sub(old, 1, head * SIZE)
        end
        old = string.sub(old, 1, entries * SIZE)
        ends = until_then + window
        record = pack(HEAD, FORM, wider, 0, entries + admitted, ticket, used, ends)
        local reply = try('SET', key, record .. old .. added .. string.rep('\0', (wider - room) * SIZE), EXPIRY, EXPIRE(ends))
        if reply.ok then
          count = admitted
        else
          count, record = FAILED, reply.err
        end
        break
      end
      local is_covered = until_then <= ends
      if not is_covered then
        ends = until_then + window
      end
      local place = head + entries
      if place >= cap then
        place = place - cap
      end
      record = pack(HEAD, FORM, cap, head, entries + admitted, ticket, used, ends)
      -- Before the head that notes it.
      local reply = is_covered or try('PEXPIREAT', key, EXPIRE(ends))
      if type(reply) == 'table' then
        count, record = FAILED, reply.err
        break
      end
      if place + admitted > cap then
        -- Around the end.
        local straight = (cap - place) * SIZE
        reply = try('SETRANGE', key, START + place * SIZE, string.sub(added, 1, straight))
        if type(reply) == 'number' then
          reply = try('SETRANGE', key, '0', record .. string.sub(added, straight + 1))
        end
      elseif START + place * SIZE <= #bytes then
        -- One write of all up to there is cheaper than two.
        reply = try('SETRANGE', key, '0', record .. string.sub(bytes, START + 1, START + place * SIZE) .. added)
      else
        reply = try('SETRANGE', key, START + place * SIZE, added)
        if type(reply) == 'number' then
          reply = try('SETRANGE', key, '0', record)
        end
      end
      if type(reply) == 'number' then
        count = admitted
      else
        count, record = FAILED, reply.err
      end
    until true
    if is_many then
      if count == FAILED then
        record = pack('<I2', #record) .. record
      end
      counts[i], records[i] = count, record
    end
  end
  answered = answered + covers
end
