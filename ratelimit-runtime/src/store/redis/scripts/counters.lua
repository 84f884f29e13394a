-- Algorithms that keep a few numbers per limit, as one string of doubles:
--
--   newest         the time of the newest admission
--   blocked_until  when the block ends, or 0
--   block          how long it was given
--   expires        when what was admitted is void; a block may last longer, and the key itself lives a little longer
--   first          the first ticket: whatever was admitted before is gone
--   then three numbers x, y, z per limit, whose meaning is the algorithm's, and for buckets four more, the low water:
--     older since, older low, newer since, newer low
--   then, while something is reserved, what is reserved since some moment, that moment; what was reserved before that
--     since another moment, that moment; and when something was last reserved
--
-- An algorithm is a table of functions of the three numbers:
--
--   at(x, y, z, max, window, now)                         x, y, z at `now`
--   status(x, y, z, max, window, capacity, cost, now)     wait, left, reset
--   charge(x, y, z, max, window, cost)                    x, y, z
--   refund(x, y, z, max, window, cost, ticket, now, low)  x, y, z, and 0 if nothing was given back; of a bucket, how far
--                                                         its level fell, rounded up; at most `low`
--   life(x, y, z, max, window, now)                       how long the numbers matter
--   horizon(max, window, capacity)                        how long they may at most
--   level(x, y, z, max, now)                              of a bucket: its level, rounded down; -1 if nothing before this
--                                                         moment can be given back
--
-- The arithmetic is that of the functions of the same names in `src/algorithm`, which say why.
--
-- needs: common

-- What `first` is before anything is admitted, and a low water that no charge has found.
local NONE = 4503599627370496

local function counters(algorithm)
  -- In the header, for each limit, and of reservations.
  local HEADER, EACH, RESERVED = 5, algorithm.level and 7 or 3, 5

  return function(key, request)
    local operation, n, cost = request.operation, request.n, request.cost
    local max, window, capacity = request.max, request.window, request.capacity
    local fixed = HEADER + EACH * n
    local count = fixed
    local numbers
    local state = call('GET', key)
    if state then
      count = #state / 8
      if count ~= fixed and count ~= fixed + RESERVED then
        return redis.error_reply('WRONGTYPE the key does not hold counters of these limits')
      end
      numbers = { struct.unpack('<' .. string.rep('d', count), state) }
    end
    if not state or now >= numbers[4] then
      local block = state and left_of_block(numbers[2], numbers[3]) > 0
      numbers = { 0, block and numbers[2] or 0, block and numbers[3] or 0, 0, NONE }
      for i = HEADER + 1, fixed do
        numbers[i] = 0
      end
      count = fixed
    end
    local newest, blocked_until, block, expires, first = unpack(numbers, 1, HEADER)
    -- A clock that has stepped back is read as standing still, so that nothing is admitted twice.
    local at = math.max(now, newest)

    local function save()
      numbers[1], numbers[2], numbers[3], numbers[4], numbers[5] = newest, blocked_until, block, expires, first
      local lasts = math.max(expires, blocked_until) - now
      if lasts > 0 then
        set(key, struct.pack('<' .. string.rep('d', count), unpack(numbers, 1, count)), lasts)
      else
        call('DEL', key)
      end
    end

    -- How long anything that is written for this request may live.
    local function horizon()
      local longest = 0
      for i = 1, n do
        longest = math.max(longest, algorithm.horizon(max[i], window[i], capacity[i]))
      end
      return longest
    end

    -- Where the clock has stepped back, nothing lives longer than if it had been written now.
    local blocked_for = left_of_block(blocked_until, block)
    if newest > now and expires > now + horizon() or blocked_until - now > blocked_for then
      if newest > now then
        expires = math.min(expires, now + horizon())
      end
      if blocked_until > 0 then
        blocked_until = now + blocked_for
      end
      save()
    end

    if operation == 'block' then
      blocked_until, block = now + request.block, request.block
      save()
      return { 1 }
    end
    if operation == 'unblock' then
      local blocked = blocked_for > 0
      if blocked then
        blocked_until, block = 0, 0
        save()
      end
      return { blocked and 1 or 0 }
    end

    -- The counters and reservations at this time. Only what is written keeps them: a refusal changes nothing.
    local x, y, z = {}, {}, {}
    for i = 1, n do
      local k = HEADER + EACH * (i - 1)
      x[i], y[i], z[i] = algorithm.at(numbers[k + 1], numbers[k + 2], numbers[k + 3], max[i], window[i], at)
    end
    local current, current_since, previous, previous_since, reserved_at = 0, 0, 0, 0, 0
    if count > fixed then
      local span = horizon()
      if at < numbers[fixed + 5] + span then
        current, current_since, previous, previous_since, reserved_at = unpack(numbers, fixed + 1, count)
        if at >= current_since + span then
          current, current_since, previous, previous_since = 0, at, current, current_since
        end
      end
    end

    local function keep()
      for i = 1, n do
        local k = HEADER + EACH * (i - 1)
        numbers[k + 1], numbers[k + 2], numbers[k + 3] = x[i], y[i], z[i]
      end
      count = fixed
      if current + previous > 0 then
        count = fixed + RESERVED
        numbers[fixed + 1], numbers[fixed + 2], numbers[fixed + 3] = current, current_since, previous
        numbers[fixed + 4], numbers[fixed + 5] = previous_since, reserved_at
      end
      save()
    end

    local function charge()
      for i = 1, n do
        if algorithm.level then
          local k = HEADER + EACH * (i - 1)
          local level = algorithm.level(x[i], y[i], z[i], max[i], at)
          if level < 0 then
            numbers[k + 4], numbers[k + 5], numbers[k + 6], numbers[k + 7] = at, NONE, at, NONE
          else
            numbers[k + 5] = math.min(numbers[k + 5], level)
            numbers[k + 7] = math.min(numbers[k + 7], level)
            if at >= numbers[k + 6] + window[i] then
              numbers[k + 4], numbers[k + 5], numbers[k + 6], numbers[k + 7] = numbers[k + 6], numbers[k + 7], at, NONE
            end
          end
        end
        x[i], y[i], z[i] = algorithm.charge(x[i], y[i], z[i], max[i], window[i], cost)
      end
    end

    -- Notes that something was admitted or committed.
    local function written()
      newest = at
      local lasts = 0
      for i = 1, n do
        lasts = math.max(lasts, algorithm.life(x[i], y[i], z[i], max[i], window[i], at))
      end
      if current + previous > 0 then
        lasts = math.max(lasts, reserved_at + horizon() - at)
      end
      expires = now + lasts
      keep()
    end

    local function refund()
      local any = false
      for i = 1, n do
        local k = HEADER + EACH * (i - 1)
        local low
        if algorithm.level then
          low = request.ticket >= newest and NONE
            or request.ticket >= numbers[k + 6] and numbers[k + 7]
            or request.ticket >= numbers[k + 4] and numbers[k + 5]
            or 0
        end
        local fell
        x[i], y[i], z[i], fell = algorithm.refund(x[i], y[i], z[i], max[i], window[i], cost, request.ticket, at, low)
        if algorithm.level then
          for mark = k + 5, k + 7, 2 do
            if numbers[mark] < NONE then
              numbers[mark] = math.max(numbers[mark] - fell, 0)
            end
          end
        end
        any = any or fell > 0
      end
      return any
    end

    -- Takes a reservation out of its sum; says whether it was there.
    local function take()
      if cost > 0 and request.ticket >= current_since and current >= cost then
        current = current - cost
        return true
      elseif cost > 0 and request.ticket < current_since and request.ticket >= previous_since and previous >= cost then
        previous = previous - cost
        return true
      end
      return false
    end

    if operation == 'refund' or operation == 'release' or operation == 'commit' then
      if request.ticket < first then
        return { 0 }
      end
      local done
      if operation == 'refund' then
        done = refund()
      else
        done = take()
      end
      if done and operation == 'commit' then
        charge()
        written()
      elseif done then
        keep()
      end
      return { done and 1 or 0 }
    end

    local wait, left, reset = {}, {}, {}
    -- Returns whether the limits refuse, and whether they do without the open reservations.
    local function status(cost)
      local reserved = current + previous
      local refused, exceeded = false, false
      for i = 1, n do
        local a, b, c = x[i], y[i], z[i]
        local own
        own, left[i], reset[i] = algorithm.status(a, b, c, max[i], window[i], capacity[i], cost, at)
        wait[i] = own
        if reserved > 0 then
          local with = math.huge
          if cost + reserved <= (algorithm.level and capacity or max)[i] then
            with = algorithm.status(a, b, c, max[i], window[i], capacity[i], cost + reserved, at)
          end
          wait[i] = math.min(with, math.max(own, RESERVED_WAIT))
          left[i] = math.max(left[i] - reserved, 0)
          -- The limit is whole again when it would be if all reservations were committed now.
          a, b, c = algorithm.charge(a, b, c, max[i], window[i], reserved)
          local _
          _, _, reset[i] = algorithm.status(a, b, c, max[i], window[i], capacity[i], 0, at)
        end
        refused = refused or wait[i] > 0
        exceeded = exceeded or own > 0
      end
      return refused, exceeded
    end

    if operation ~= 'acquire' and operation ~= 'reserve' and operation ~= 'peek' then
      return unknown(request)
    end
    local refused, exceeded = status(cost)
    if exceeded and blocked_for == 0 and request.block > 0 and operation ~= 'peek' then
      blocked_until, block = now + request.block, request.block
      blocked_for = block
      save()
    end
    if refused or blocked_for > 0 or cost == 0 or operation == 'peek' then
      return verdict(wait, left, reset, at, blocked_for, expires - now, 0)
    end
    if operation == 'acquire' then
      charge()
    else
      if current + previous == 0 then
        current_since, previous_since = at, at
      end
      current, reserved_at = current + cost, at
    end
    first = math.min(first, at)
    written()
    status(0)
    return verdict(wait, left, reset, at, 0, expires - now, at)
  end
end
