-- The log as a ring, or nothing yet: no extras, and a clock that goes forward. It grows up to 512
-- slots here. `full.lua` has the rest, `log.lua` the format.

-- SECTION question
local HEAD, FIXED, CHANGING, VIEW = '<I3I4xxxxdI4I4ddI7I2I3', '<I3I4I4d', '<I4I4dd', '<I4d'
local SLOT, SIZE, START, BLOCK, LARGE = '<I7I2I3', 12, 31 + 12 * limits, 256, 512
-- Eight slots, each as two numbers: the lower bytes of the ticket, and all that is above them.
local EIGHT, UPPER = '<I6I6I6I6I6I6I6I6I6I6I6I6I6I6I6I6', 281474976710656
-- Version 1, and how many limits; the same with sums.
local FORM, SUMMED = 1 + 65536 * limits, 1 + 65536 * limits + 2048
-- The first 16 slots are read with the head.
local IN_HAND = limits == 1 and '234' or START + 16 * SIZE - 1
local in_ring = asks and cost < 8388608
local slot_of_now
-- Whether one call asks about one limit, and the expiry is not written each time.
local is_plain = in_ring and time and not peeks and not terms and calls == 1
local later_ends, later_expiry
-- The last expiry that was written, as a text, and what a new key was given.
local expiry, expires, fresh, fresh_expiry, fresh_record

-- SECTION quick
repeat
  if record or failure or not in_ring or work >= most_work then
    break
  end
  local bytes = try('GETRANGE', key, '0', IN_HAND)
  local form, cap, ends, head, entries, ticket, used = FORM, 0, 0, 0, 0, 0, 0
  local is_new = bytes == ''
  if is_new then
    if layout == ZSET then
      break
    elseif fresh and not peeks then
      -- As the one before.
      local reply = try('SET', key, fresh, EXPIRY, fresh_expiry)
      if reply.err then
        failure = reply.err
      else
        record, answered = fresh_record, left
      end
      break
    end
  elseif bytes.err or #bytes < START + SIZE then
    break
  else
    -- Of one limit, the first slot stands behind the head.
    local its, lead, weight
    form, cap, ends, head, entries, ticket, used, its, lead, weight = parse(HEAD, bytes)
    if is_plain and form == FORM and entries > 0 and entries <= cap and head < cap and #bytes == START + cap * SIZE
      and ticket < now then
      if head > 0 then
        its, lead, weight = parse(SLOT, bytes, START + head * SIZE + 1)
      end
      local leaves, needed, behind = its - lead + window - now, used + cost, head + entries
      if leaves > 0 and needed <= max and behind < cap then
        -- There is room, and a slot behind the others.
        slot_of_now = slot_of_now or pack(SLOT, now, 0, cost)
        local changed = pack(CHANGING, head, entries + 1, now, needed)
          .. string.sub(bytes, START + 1, START + behind * SIZE) .. slot_of_now
        local reply
        if now + window <= ends then
          reply = try('SETRANGE', key, '19', changed)
        else
          -- The expiry is not late enough.
          if not later_expiry then
            local kept = 2 * window
            later_ends = pack('<d', now + kept)
            later_expiry = string.format('%d', (base + (kept < shortest and shortest or kept)) / 1000)
          end
          reply = try('SETRANGE', key, '11', later_ends .. changed)
          if type(reply) ~= 'table' then
            reply = try(EXPIRE, key, later_expiry)
          end
        end
        if type(reply) == 'table' then
          failure = reply.err
        else
          local rest = max - needed
          record, answered = admissions and admissions[rest] or pack(RECORD, 1, 0, 1, rest, 0, window, now), 1
          if admissions then
            admissions[rest] = record
          end
        end
        break
      elseif leaves > 0 and needed > max and needed - weight <= max and block == 0 then
        -- One has to leave.
        behind = behind - (behind > cap and cap or 0)
        its, lead = parse(SLOT, bytes, START + (behind - 1) * SIZE + 1)
        local room, reset = max - used, its - lead + window - now
        record, answered = pack(RECORD, 0, 0, 1, room > 0 and room or 0, leaves, reset, 0), 1
        break
      end
    end
    if form ~= FORM and form ~= SUMMED or (form == SUMMED) ~= (cap > LARGE) or entries > cap or head >= cap
      or not (ticket < 9007199254740992) or cap > 15 and #bytes < START + 16 * SIZE
      or cap < 16 and #bytes < START + cap * SIZE then
      break
    end
  end

  -- The slots from `from` to before `to` are in `slots`, after `shift` bytes.
  local slots, from, to, shift = bytes, 0, cap < 16 and cap or 16, START
  if ticket <= cut then
    head, entries, used = 0, 0, 0
  end

  -- How many calls each limit has room for; else how long they wait. `verdict` in `common.lua` says
  -- which one decides.
  local admitted, gone = left, entries
  local decides, rest, wait, span = 0, math.huge, 0, window
  local views, view_at = terms and {}, 44
  for n = 1, limits do
    local its_max, its_window, at, sum = max, window, 0, used
    if terms then
      its_max, its_window = terms[2 * n - 1], terms[2 * n]
      if n ~= widest then
        sum = 0
        if entries > 0 then
          at, sum = parse(VIEW, bytes, view_at)
        end
        view_at = view_at + 12
      end
    end
    -- Past what has left the window; if that is not enough, on to what has to leave.
    local its_cut, first, time_of, over = now - its_window, nil, 0, sum + cost - its_max
    local start, stop = at, at + BLOCK
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
          stop = at
        end
      end
      if at >= stop then
        break
      end
      local its, lead, weight = parse(SLOT, slots, shift + (place - from) * SIZE + 1)
      time_of = its - lead
      if not first and time_of > its_cut then
        first, over = at, sum + cost - its_max
      end
      if first then
        over = over - weight
        if over <= 0 then
          break
        end
      else
        sum = sum - weight
      end
      at = at + 1
    end
    if at > start + 16 then
      work = work + (at - start) / BLOCK
    end
    if at >= stop and at < entries then
      -- Many have to be passed.
      admitted = nil
      break
    end
    first = first or entries
    local room, waits = its_max - sum, 0
    if not (room >= cost) then
      if first == entries or over > 0 then
        admitted = nil
        break
      end
      waits, room = time_of + its_window - now, room > 0 and room or 0
    elseif admitted * cost > room then
      admitted = (room - room % cost) / cost
    end
    if waits > wait or waits == wait and room < rest then
      decides, rest, wait, span = n - 1, room, waits, its_window
    end
    if n == widest then
      gone, used = first, sum
    end
    if views then
      views[2 * n - 1], views[2 * n] = first, sum
    end
  end
  if not admitted then
    break
  end
  local newest
  if ticket >= now or entries > 0 and (wait > 0 or peeks) then
    local place = head + entries - 1
    place = START + (place < cap and place or place - cap) * SIZE
    local slot = place + SIZE <= #bytes and string.sub(bytes, place + 1, place + SIZE)
      or call('GETRANGE', key, place, place + SIZE - 1)
    if entries == 0 or #slot < SIZE then
      break
    end
    local its, lead = parse(SLOT, slot)
    newest = its - lead
    if newest > now or ticket - now + left > 60000 then
      -- A clock that was set back, or that stands still.
      break
    end
  end

  if wait > 0 or peeks then
    if wait > 0 and block > 0 and not peeks then
      break
    end
    local reset = newest and newest + span > now and newest + span - now or 0
    record, answered = pack(RECORD, wait == 0 and 1 or 0, decides, left, rest, wait, reset, 0), left
    break
  end

  entries, head = entries - gone, head + gone
  head = entries > 0 and (head < cap and head or head - cap) or 0
  ticket = ticket < now and now or ticket + 1
  local place = head + entries
  if place >= cap then
    place = place - cap
  end
  local needed = entries + admitted
  if form == SUMMED then
    -- A long one grows before it is full.
    local free, straight = cap - 16 - (cap - cap % LARGE) / LARGE - entries, cap - place
    free = free < straight and free or straight
    if free < 1 or entries * 4 <= cap and entries <= 2048 then
      break
    elseif free < admitted then
      admitted, needed = free, entries + free
    end
    work = work + admitted / BLOCK
  elseif needed > LARGE then
    -- What is left makes it a long one.
    if entries >= LARGE then
      break
    end
    admitted, needed = LARGE - entries, LARGE
  end
  local lead, weight, newest_added = ticket - now, admitted * cost, ticket + admitted - 1
  slot_of_now = slot_of_now or pack(SLOT, now, 0, cost)
  local added = lead == 0 and slot_of_now or pack(SLOT, ticket, lead, cost)
  if admitted > 1 then
    local list, n, own = {}, 0, ticket
    local upper = (ticket - ticket % UPPER) / UPPER + lead * 256 + cost * 16777216
    if ticket % UPPER + admitted > UPPER then
      -- Once in nine years: one by one.
      break
    end
    for _ = 8, admitted, 8 do
      n = n + 1
      list[n] = pack(EIGHT, own, upper, own + 1, upper + 256, own + 2, upper + 512, own + 3, upper + 768,
        own + 4, upper + 1024, own + 5, upper + 1280, own + 6, upper + 1536, own + 7, upper + 1792)
      own, upper = own + 8, upper + 2048
    end
    for its = own, newest_added do
      n = n + 1
      list[n] = pack(SLOT, its, its - now, cost)
    end
    added = table.concat(list)
  end
  -- The sums of each 256 slots whose last one is written.
  local sums, full_block = '', nil
  if form == SUMMED and place % BLOCK + admitted >= BLOCK then
    full_block = (place - place % BLOCK) / BLOCK
    local earlier, weighs = place % BLOCK, 0
    if earlier > 0 then
      local slots = call('GETRANGE', key, START + (place - earlier) * SIZE, START + place * SIZE - 1)
      if #slots < earlier * SIZE then
        break
      end
      local numbers = { parse('<' .. string.rep('I9I3', earlier), slots) }
      for at = 2, 2 * earlier, 2 do
        weighs = weighs + numbers[at]
      end
      if weighs >= 8388608 then
        -- Perhaps one of them is reserved.
        break
      end
    end
    for at = BLOCK - earlier, admitted, BLOCK do
      sums = sums .. pack('<ddd', now, weighs + (BLOCK - earlier) * cost, 0)
      earlier, weighs = 0, 0
    end
  end
  used = used + weight
  local further = ''
  for n = 1, terms and limits or 0 do
    if n ~= widest then
      further = further .. pack(VIEW, views[2 * n - 1] - gone, views[2 * n] + weight)
    end
  end

  local is_anew = needed > cap or cap > 16 and needed * 4 <= cap and form == FORM
  local lasts = newest_added + horizon
  local is_covered = time and lasts <= ends
  if not is_covered then
    -- The expiry is written rarely, from the second time on.
    local written = (time and not is_new) and lasts + horizon or lasts
    ends = time and written or 0
    if written ~= expires then
      expires = written
      local kept = written - now
      expiry = string.format('%d', (base + (kept < shortest and shortest or kept)) / 1000)
    end
  end
  local reply
  if is_anew then
    local room, enough = needed * 1.5, terms and terms[2 * widest - 1] or max
    room = room + (4 - room % 4) % 4
    room = room < LARGE and room or LARGE
    room = enough >= needed and enough < room and enough or room
    local old = ''
    if entries > 0 then
      old = START + cap * SIZE <= #bytes and string.sub(bytes, START + 1, START + cap * SIZE)
        or call('GETRANGE', key, START, START + cap * SIZE - 1)
      if #old < cap * SIZE then
        break
      end
      local straight = cap - head
      if entries > straight then
        old = string.sub(old, head * SIZE + 1) .. string.sub(old, 1, (entries - straight) * SIZE)
      elseif entries < cap then
        old = string.sub(old, head * SIZE + 1, (head + entries) * SIZE)
      end
    end
    local refunds = is_new and 0 or parse('<I4', bytes, 8)
    local value = pack(FIXED, FORM, room, refunds, ends) .. pack(CHANGING, 0, needed, newest_added, used)
      .. further .. old .. added .. string.rep('\0\0\0\0\0\0\0\0\0\0\0\0', room - needed)
    if is_covered then
      reply = try('SET', key, value, 'KEEPTTL')
    else
      reply = try('SET', key, value, EXPIRY, expiry)
    end
    if is_new and lead == 0 and admitted == left then
      fresh, fresh_expiry = value, expiry
    end
  else
    local changed = pack(CHANGING, head, needed, newest_added, used) .. further
    local from_byte = '19'
    if not is_covered then
      from_byte, changed = '11', pack('<d', ends) .. changed
    end
    if place + admitted > cap then
      -- Around the end.
      local straight = (cap - place) * SIZE
      reply = try('SETRANGE', key, START + place * SIZE, string.sub(added, 1, straight))
      changed = changed .. string.sub(added, straight + 1)
    elseif place < 16 then
      -- One write of all up to there is cheaper than two.
      changed = changed .. string.sub(bytes, START + 1, START + place * SIZE) .. added
    else
      reply = try('SETRANGE', key, START + place * SIZE, added)
    end
    if full_block and type(reply) ~= 'table' then
      reply = try('SETRANGE', key, START + cap * SIZE + full_block * 24, sums)
    end
    if type(reply) ~= 'table' then
      reply = try('SETRANGE', key, from_byte, changed)
    end
    -- Only a script's first write is refused for lack of memory, and this one never is.
    if not is_covered and type(reply) ~= 'table' then
      reply = try(EXPIRE, key, expiry)
    end
  end
  if type(reply) == 'table' and reply.err then
    failure = reply.err
    break
  end
  record, answered = pack(RECORD, 1, decides, admitted, rest - weight, 0, span, ticket), admitted
  fresh_record = fresh and (fresh_record or record)
until true
