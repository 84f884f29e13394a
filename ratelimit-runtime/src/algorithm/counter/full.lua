-- Algorithms that keep a few numbers per limit, as one string of doubles:
--
--   newest         the time of the newest admission, or of what was settled or refunded since
--   blocked_until  when the block ends, or 0
--   block          how long it was given
--   expires        when what was admitted is void; a block may last longer, and the key itself
--                  lives a little longer
--   first          the first ticket: whatever was admitted before is gone
--   charged        the time of the newest charge
--   then three numbers x, y, z per limit, whose meaning is the algorithm's, and for buckets six
--   more, the low water:
--     since some moment, the lowest level that a charge has found, and its rest; and the same since
--     a later moment
--   then, while something is reserved, what is reserved since some moment, that moment; what was
--   reserved before that
--     since another moment, that moment; and when something was last reserved
--
-- An algorithm is a table of functions of the three numbers:
--
--   at(x, y, z, max, window, now)                         x, y, z at `now`
--   status(x, y, z, max, window, capacity, cost, now)     wait, left, reset
--   charge(x, y, z, max, window, cost)                    x, y, z
--   refund(x, y, z, max, window, cost, ticket, now)       x, y, z, whether anything was given back
--   life(x, y, z, max, window, now)                       how long the numbers matter
--   horizon(max, window, capacity)                        how long they may at most
--
-- Buckets have no refund, but these:
--
--   level(x, y, z, max, now)                  how much is in it, and a rest in parts; -1 if nothing
--                                             before this moment can be given back
--   with_level(x, y, z, now, level, rest)     x, y, z with this level
--   weight(z, max, window, cost)              what the cost has been charged at; parts of a whole
--
-- The arithmetic is that of the functions of the same names in `src/algorithm`, which say why.

-- What `first` is before anything is admitted, and a low water that no charge has found.
local NONE = 4503599627370496

-- The level without `amount`, at least 0; a whole has so many `parts`.
local function less(level, rest, amount, amount_rest, parts)
  if amount > level or amount == level and amount_rest >= rest then
    return 0, 0
  elseif amount_rest > rest then
    return level - amount - 1, rest + parts - amount_rest
  end
  return level - amount, rest - amount_rest
end

local function lesser(level, rest, other, other_rest)
  if other < level or other == level and other_rest < rest then
    return other, other_rest
  end
  return level, rest
end

local function counters(algorithm)
  -- In the header, for each limit, and of reservations.
  local HEADER, EACH, RESERVED = 6, algorithm.level and 9 or 3, 5

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
        return failed('WRONGTYPE the key does not hold counters of these limits')
      end
      numbers = { struct.unpack('<' .. string.rep('d', count), state) }
    end
    -- What is void is forgotten; but not by the end of a block, after which the clock may still
    -- step back.
    if not state or now >= numbers[4] and operation ~= 'unblock' then
      local block = state and left_of_block(numbers[2], numbers[3]) > 0
      numbers = { 0, block and numbers[2] or 0, block and numbers[3] or 0, 0, NONE, 0 }
      for i = HEADER + 1, fixed do
        numbers[i] = 0
      end
      count = fixed
    end
    local newest, blocked_until, block, expires, first, charged = unpack(numbers, 1, HEADER)
    -- A clock that has stepped back is read as standing still, so that nothing is admitted twice.
    local at = math.max(now, newest)

    local function save()
      numbers[1], numbers[2], numbers[3] = newest, blocked_until, block
      numbers[4], numbers[5], numbers[6] = expires, first, charged
      local lasts = math.max(expires, blocked_until) - now
      set(key, struct.pack('<' .. string.rep('d', count), unpack(numbers, 1, count)), lasts)
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

    -- The counters and reservations at this time. Only what is written keeps them: a refusal
    -- changes nothing.
    local x, y, z = {}, {}, {}
    for i = 1, n do
      local k = HEADER + EACH * (i - 1)
      x[i], y[i], z[i] = algorithm.at(numbers[k + 1], numbers[k + 2], numbers[k + 3], max[i], window[i], at)
    end
    local current, current_since, previous, previous_since, reserved_at = 0, 0, 0, 0, 0
    -- What is forgotten has not drained, so a reservation counts at least for a window.
    local function reservation_span()
      return math.max(horizon(), request.longest)
    end

    if count > fixed then
      local span = reservation_span()
      if at < numbers[fixed + 5] + span then
        current, current_since, previous, previous_since, reserved_at = unpack(numbers, fixed + 1, count)
        if at >= current_since + span then
          current, current_since, previous, previous_since = 0, at, current, current_since
        end
      end
    end

    local function keep()
      newest = at
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
      charged = at
      for i = 1, n do
        if algorithm.level then
          local older = HEADER + EACH * (i - 1) + 4
          local newer = older + 3
          local level, rest = algorithm.level(x[i], y[i], z[i], max[i], at)
          if level < 0 then
            numbers[older], numbers[older + 1], numbers[older + 2] = at, NONE, 0
            numbers[newer], numbers[newer + 1], numbers[newer + 2] = at, NONE, 0
          else
            for mark = older, newer, 3 do
              numbers[mark + 1], numbers[mark + 2] = lesser(numbers[mark + 1], numbers[mark + 2], level, rest)
            end
            if at >= numbers[newer] + window[i] then
              numbers[older], numbers[older + 1], numbers[older + 2] =
                numbers[newer], numbers[newer + 1], numbers[newer + 2]
              numbers[newer], numbers[newer + 1], numbers[newer + 2] = at, NONE, 0
            end
          end
        end
        x[i], y[i], z[i] = algorithm.charge(x[i], y[i], z[i], max[i], window[i], cost)
      end
    end

    -- Notes that something was admitted or committed.
    local function written()
      local lasts = 0
      for i = 1, n do
        lasts = math.max(lasts, algorithm.life(x[i], y[i], z[i], max[i], window[i], at))
      end
      if current + previous > 0 then
        lasts = math.max(lasts, reserved_at + reservation_span() - at)
      end
      expires = now + lasts
      keep()
    end

    -- Takes out of a bucket the least of what was charged, of its lowest level since, and of what
    -- is in it.
    local function refund_bucket(i)
      local older = HEADER + EACH * (i - 1) + 4
      local newer = older + 3
      local mark = request.ticket >= numbers[newer] and newer or request.ticket >= numbers[older] and older
      local amount, amount_rest, parts = algorithm.weight(z[i], max[i], window[i], cost)
      if request.ticket < charged then
        local low, low_rest = 0, 0
        if mark then
          low, low_rest = numbers[mark + 1], numbers[mark + 2]
        end
        amount, amount_rest = lesser(amount, amount_rest, low, low_rest)
      end
      local level, rest = algorithm.level(x[i], y[i], z[i], z[i], at)
      amount, amount_rest = lesser(amount, amount_rest, math.max(level, 0), rest)
      level, rest = less(math.max(level, 0), rest, amount, amount_rest, parts)
      x[i], y[i], z[i] = algorithm.with_level(x[i], y[i], z[i], at, level, rest)
      -- Had it not come, later charges would have found so much less; none has found the newest.
      for mark = older, newer, 3 do
        if request.ticket < charged and numbers[mark + 1] < NONE then
          numbers[mark + 1], numbers[mark + 2] =
            less(numbers[mark + 1], numbers[mark + 2], amount, amount_rest, parts)
        end
      end
      return amount > 0 or amount_rest > 0
    end

    local function refund()
      local any = false
      for i = 1, n do
        local given
        if algorithm.level then
          given = refund_bucket(i)
        else
          x[i], y[i], z[i], given = algorithm.refund(x[i], y[i], z[i], max[i], window[i], cost, request.ticket, at)
        end
        any = any or given
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
      local open = refused and current + previous > 0 and -1 or 0
      return verdict(wait, left, reset, at, blocked_for, expires - now, open)
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
    blocked_until, block = 0, 0
    written()
    status(0)
    return verdict(wait, left, reset, at, 0, expires - now, at)
  end
end
