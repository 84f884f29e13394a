-- A member for each admission: its ticket, sixteen digits; score: its time. Each admission removes what has left the window, so that
-- the number of members is the number that counts. The expiry is a window after the first admission of a key; from the second on it is
-- written once in a cell (cells are a window long, counted from the epoch), as the end of the cell after the newest ticket's.
-- Record of an admission: first ticket, how many count with it. Of a refusal: how many count, when the next slot is free, newest ticket.
for q = 2, #ARGV do
  local operation, layout, calls, covers, limits, cost, block, longest, max, window = parse(QUESTION, ARGV[q])
  local is_acquire = operation == 1
  local is_quick = operation % 2 == 1 and operation < 4 and limits == 1 and cost == 1 and is_server and max <= 126 and layout % 16 ~= 2
  local cut, score = now - window, stamp and #stamp[2] == 6 and stamp[1] .. stamp[2] or string.format('%016.0f', now)
  local cell, before, fresh_expiry, cell_expiry, from_end, entry = now - now % window, nil, nil, nil, nil, nil
  for i = answered + 1, answered + covers do
    count, record = FULL, ''
    repeat
      if not is_quick then
        break
      end
      local key = KEYS[i]
      local name = try('ZRANGE', key, '-1', '-1')
      local live, ticket, newest, spare = 0, now, 0, max
      if name.err then
        break
      end
      name = name[1]
      if name then
        newest = #name == 16 and tonumber(name)
        if not newest then
          break
        end
        if newest >= now then
          -- Ahead of its time, or a clock that was set back.
          if try('ZSCORE', key, name) + 0 > now then
            break
          end
          ticket = newest + 1
        end
        live = try('ZCARD', key)
        spare = max - live
        if spare < 1 then
          -- All count, unless something has left the window since the last admission.
          from_end = from_end or string.format('%d', -max)
          local leaves = try('ZRANGE', key, from_end, from_end, 'WITHSCORES')[2]
          if leaves + 0 > cut then
            if block == 0 or not is_acquire then
              count, record = STORED + 24, pack('<ddd', live, leaves, newest)
            end
            break
          end
          spare = 1
        end
        if not is_acquire or calls > 1 then
          live = try('ZCOUNT', key, cut + 1, '+inf')
          spare = max - live
          if not is_acquire then
            count, record = STORED + 24, pack('<ddd', live, 0, newest)
            break
          end
        end
      elseif not is_acquire or max < 1 then
        break
      end
      local admitted, done = 1, nil
      if calls == 1 then
        done = try('ZADD', key, score, ticket == now and score or string.format('%016.0f', ticket))
      else
        admitted = spare < calls and spare or calls
        -- Most differ in the last digit only. The newest comes first, because Redis looks for the place of each from below.
        local entries, char, tens = {}, string.char, nil
        local last = ticket + admitted - 1
        for at = 1, 2 * admitted, 2 do
          local digit = last % 10
          tens = tens or string.format('%08d%07d', last / 100000000, last / 10 % 10000000)
          entries[at], entries[at + 1] = score, tens .. char(48 + digit)
          tens, last = digit > 0 and tens or nil, last - 1
        end
        done = try('ZADD', key, unpack(entries))
      end
      if done ~= admitted then
        count, record = FAILED, type(done) == 'table' and done.err or WRONGTYPE
        break
      end
      local last = ticket + admitted - 1
      if not name and admitted == 1 then
        local ends = now + window
        fresh_expiry = fresh_expiry or EXPIRE(ends)
        call('PEXPIREAT', key, fresh_expiry)
        entry = entry or pack('<dd', now, 1)
        count, record = 1, entry
        break
      end
      if name then
        before = before or string.format('%d', cut)
        live = (calls > 1 and try('ZCARD', key) - admitted or live) - call('ZREMRANGEBYSCORE', key, '-inf', before)
      end
      if last >= cell + window then
        local ends = last - last % window + 2 * window
        call('PEXPIREAT', key, EXPIRE(ends))
      elseif live < 2 or newest < cell then
        if not cell_expiry then
          local ends = cell + 2 * window
          cell_expiry = EXPIRE(ends)
        end
        call('PEXPIREAT', key, cell_expiry)
      end
      count, record = admitted, pack('<dd', ticket, live + admitted)
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
