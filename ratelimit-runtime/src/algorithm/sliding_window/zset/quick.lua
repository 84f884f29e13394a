-- The log as a sorted set, or nothing yet: a cost of 1, no `meta`, and a clock that goes forward.
-- `full.lua` has the rest, and the format.
--
-- Each admission removes what has left the window, so that in a short set of one limit the number
-- of members is the number that counts.

-- SECTION question
local LARGEST_ZSET, SHORT = 126, 256
local in_set = asks and cost == 1 and layout ~= RING and (most <= LARGEST_ZSET or layout == ZSET)
-- Of the smallest limits all members are read at once, of others the newest. `young` is a ticket
-- that has not left the window, though tickets may be ahead of their time.
local is_whole, young = most <= 4, nil
local first_read = is_whole and '0' or '-1'
-- Of one limit, the entry that has to leave is so far from the end. Texts are made when needed.
local from_end, cut_text, score, cell_expiry, short_expiry
local cell = now - now % horizon

-- SECTION quick
repeat
  if not in_set then
    break
  end
  local members = try('ZRANGE', key, first_read, '-1')
  if members.err then
    break
  end
  local live = #members
  local name, newest, ticket = members[live], 0, now
  if name then
    newest = #name == 16 and tonumber(name)
    if not newest then
      break
    end
    if newest >= now then
      -- Ahead of its time, or a clock that was set back.
      if call('ZSCORE', key, name) + 0 > now then
        break
      end
      ticket = newest + 1
    end
    live = is_whole and live or call('ZCARD', key)
  end

  -- How many calls are admitted, and how many entries count beside them; else how long they wait.
  local admitted, counted, is_short = left, live, not terms and live <= SHORT
  local decides, rest, wait, span, last = 0, max, 0, window, 0
  if is_short then
    if live >= max then
      -- All count, unless something has left the window since the last admission.
      if is_whole then
        last = call('ZSCORE', key, members[live - max + 1]) + 0
      else
        from_end = from_end or string.format('%d', -max)
        last = call('ZRANGE', key, from_end, from_end, 'WITHSCORES')[2] + 0
      end
      wait = last > cut and last + window - now or 0
      rest = 0
    end
    if wait == 0 then
      if live > 0 and (peeks or left > 1) then
        counted = call('ZCOUNT', key, cut + 1, '+inf')
      elseif live >= max then
        counted = max - 1
      end
      rest = max - counted
      admitted = rest < left and rest or left
    end
  else
    if live > SHORT and newest <= cut and not peeks then
      -- All of it has expired.
      call('UNLINK', key)
      name, live = nil, 0
    end
    counted, rest = 0, math.huge
    for n = 1, limits do
      local its_max, its_window = max, window
      if terms then
        its_max, its_window = terms[2 * n - 1], terms[2 * n]
      end
      local its_count, its_wait = its_max, 0
      if live >= its_max then
        local rank = live - its_max
        its_wait = call('ZRANGE', key, rank, rank, 'WITHSCORES')[2] + its_window - now
      end
      if its_wait <= 0 then
        its_wait, its_count = 0, live > 0 and call('ZCOUNT', key, now - its_window + 1, '+inf') or 0
      end
      local room = its_max - its_count
      if its_wait > wait or its_wait == wait and room < rest then
        decides, rest, wait, span = n - 1, room, its_wait, its_window
      end
      admitted = room < admitted and room or admitted
      counted = its_count > counted and its_count or counted
    end
  end

  if wait > 0 or peeks then
    if wait > 0 and block > 0 and not peeks then
      break
    end
    local reset = 0
    if counted > 0 then
      last = max == 1 and is_short and wait > 0 and last or call('ZSCORE', key, name) + 0
      reset = last + span > now and last + span - now or 0
    end
    -- Not in the future, which no entry is.
    if wait <= span and reset <= span then
      record, answered = pack(RECORD, wait == 0 and 1 or 0, decides, left, rest, wait, reset, 0), left
    end
    break
  end

  local done
  score = score or (time and #time[2] == 6 and time[1] .. time[2] or string.format('%016d', now))
  if admitted == 1 then
    done = try('ZADD', key, score, ticket == now and score or string.format('%016d', ticket))
  else
    -- The newest comes first, because Redis looks for the place of each from below.
    admitted = admitted < 1000 and admitted or 1000
    local entries, n, its_ticket = {}, 0, ticket + admitted - 1
    local last_digit = { [0] = '0', '1', '2', '3', '4', '5', '6', '7', '8', '9' }
    while its_ticket >= ticket do
      -- Up to ten that differ in the last digit only.
      local digit, further = its_ticket % 10, its_ticket - ticket
      local tens = string.format('%015d', its_ticket / 10)
      for digit = digit, digit > further and digit - further or 0, -1 do
        n = n + 2
        entries[n - 1], entries[n] = score, tens .. last_digit[digit]
      end
      its_ticket = its_ticket - digit - 1
    end
    done = try('ZADD', key, unpack(entries))
  end
  if done ~= admitted then
    failure = type(done) == 'table' and done.err or 'WRONGTYPE the key does not hold a rate limiter log'
    break
  end

  if is_short and name then
    young = young or string.format('%016d', cut + 60000)
    if live >= max or not is_whole or members[1] < young then
      cut_text = cut_text or string.format('%d', cut)
      local removed = call('ZREMRANGEBYSCORE', key, '-inf', cut_text)
      if left == 1 then
        counted = live - removed
        rest = max - counted
      end
    end
  elseif counted < live then
    -- Of a large set a bounded piece of work per call, yet never less than what is added.
    local expired, most_removed = live - counted, admitted > 64 and admitted or 64
    call('ZREMRANGEBYRANK', key, '0', (live > SHORT and expired > most_removed and most_removed or expired) - 1)
  end
  -- By the rule of cells, as `full.lua` has it.
  local newest_added = ticket + admitted - 1
  if not name and admitted == 1 then
    short_expiry = short_expiry
      or string.format('%d', (base + (horizon < shortest and shortest or horizon)) / 1000)
    call(EXPIRE, key, short_expiry)
  elseif newest_added >= cell + horizon then
    local lasts = newest_added - newest_added % horizon + 2 * horizon - now
    call(EXPIRE, key, string.format('%d', (base + (lasts < shortest and shortest or lasts)) / 1000))
  elseif not time or counted < 2 or newest < cell then
    if not cell_expiry then
      local lasts = cell + 2 * horizon - now
      cell_expiry = string.format('%d', (base + (lasts < shortest and shortest or lasts)) / 1000)
    end
    call(EXPIRE, key, cell_expiry)
  end
  rest, answered = rest - admitted, admitted
  local is_alike = admissions and left == 1 and ticket == now and not terms
  record = is_alike and admissions[rest] or pack(RECORD, 1, decides, admitted, rest, 0, span, ticket)
  if is_alike then
    admissions[rest] = record
  end
until true
