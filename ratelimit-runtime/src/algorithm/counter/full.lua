-- Algorithms that keep a few numbers per limit, as one string of doubles. The head is
--
--   of buckets, the time of the newest charge; then for each limit two numbers; and behind the head
--   the max of each limit's newest charge, until when the expiry is written (0 by a client's
--   clock), and the first ticket that can be refunded (below 0 from a refund on, until nothing is
--   left)
--   of the others, for each limit two or three numbers
--
-- Extras follow, while there are any; the length says which:
--
--   block          its end, how long it was given, and how many there have been in a row
--   reservations   what is reserved since some moment, that moment; what was reserved before that
--                  since another moment, that moment; when all of it lapses
--
-- An algorithm is a table of functions of the numbers x, y, z of a limit. Buckets are given `per`
-- and `micros`, which are max and window in lowest terms, for these two, and the newest time as z:
--
--   each                                                  how many numbers are stored
--   at(x, y, z, max, window, now)                         x, y, z at `now`
--   status(x, y, z, max, window, capacity, cost, now)     wait, left, reset
--   charge(x, y, z, max, window, cost)                    x, y, z
--   refund(x, y, z, max, window, cost, ticket, now)       x, y, z, whether anything was given back
--   ends(x, y, z, max, window)                            until when the stored numbers matter
--   begin(x, y, z, window)                                when they cannot have been stored before
--   horizon(max, window, capacity)                        how long they may matter at most
--
-- Buckets have no refund, but these:
--
--   under(x, y)                           x, y under another max
--   level(x, y, z, now)                   how much is in it at `now`, and a rest
--   weight(cost, per, micros)             what the cost has been charged at, as a level
--   drained(lasts, per, micros)           what drains meanwhile, as a level; parts of a whole
--
-- The arithmetic is that of the functions of the same names in `src/algorithm`, which say why.

local function gcd(a, b)
  while b > 0 do
    a, b = b, a % b
  end
  return a
end

-- An amount without `other`, at least 0; a whole has so many `parts`.
local function less(amount, rest, other, other_rest, parts)
  if other > amount or other == amount and other_rest >= rest then
    return 0, 0
  elseif other_rest > rest then
    return amount - other - 1, rest + parts - other_rest
  end
  return amount - other, rest - other_rest
end

local function lesser(amount, rest, other, other_rest)
  if other < amount or other == amount and other_rest < rest then
    return other, other_rest
  end
  return amount, rest
end

local FOREIGN = failed('WRONGTYPE the key does not hold counters of these limits')

local function counters(algorithm)
  local is_bucket, each = algorithm.level, algorithm.each
  -- How many numbers there are before those of the limits, and in extras.
  local before = is_bucket and 1 or 0
  local BLOCK, RESERVED = 3, 5

  return function(key, request)
    local operation, n, cost = request.operation, request.n, request.cost
    local max, window, capacity = request.max, request.window, request.capacity
    local a, b = max, window
    if is_bucket then
      a, b = {}, {}
      for i = 1, n do
        a[i], b[i] = max[i] / request.divisor[i], window[i] / request.divisor[i]
      end
    end
    local fixed = is_bucket and 3 * n + 3 or each * n

    local function horizon()
      local longest = 0
      for i = 1, n do
        longest = math.max(longest, algorithm.horizon(a[i], b[i], capacity[i]))
      end
      return longest
    end
    -- What is forgotten has not drained, so a reservation counts at least for a window.
    local function reservation_span()
      return math.max(horizon(), request.longest)
    end

    local state = call('GET', key)
    local numbers, extras = {}, 0
    local blocked_until, given, strikes = 0, 0, 0
    local current, current_since, previous, previous_since, lapses = 0, 0, 0, 0, 0
    local is_refunded = false
    if state then
      extras = #state / 8 - fixed
      if extras ~= 0 and extras ~= BLOCK and extras ~= RESERVED and extras ~= BLOCK + RESERVED then
        return FOREIGN
      end
      numbers = { parse('<' .. string.rep('d', fixed + extras), state) }
      if is_bucket and numbers[fixed] < 0 then
        is_refunded, numbers[fixed] = true, -numbers[fixed]
      end
      for i = 1, fixed + extras do
        if not (numbers[i] >= 0 and numbers[i] < 9007199254740992) then
          return FOREIGN
        end
      end
      if extras % RESERVED == BLOCK then
        blocked_until, given, strikes = unpack(numbers, fixed + 1)
      end
      if extras >= RESERVED then
        current, current_since, previous, previous_since, lapses = unpack(numbers, fixed + extras - RESERVED + 1)
      end
    end

    -- What is stored, and when all of it is void. What drains does so at the rate of the newest
    -- charge.
    local stored = { x = {}, y = {}, z = {}, max = {} }
    local newest, first, expires, at, is_other = 0, now, lapses, now, false
    if state and is_bucket then
      newest, first = numbers[1], numbers[fixed]
    end
    local x, y, z = {}, {}, {}
    for i = 1, n do
      local k = before + each * (i - 1)
      x[i], y[i], z[i] = numbers[k + 1] or 0, numbers[k + 2] or 0, each == 3 and numbers[k + 3] or newest
      stored.x[i], stored.y[i], stored.z[i] = x[i], y[i], z[i]
      local its, own, other = is_bucket and numbers[1 + 2 * n + i] or max[i], a[i], b[i]
      if its ~= max[i] then
        local divisor = gcd(its, window[i])
        own, other = its / divisor, window[i] / divisor
        is_other = true
      end
      stored.max[i] = its
      expires = math.max(expires, algorithm.ends(x[i], y[i], z[i], own, other))
      at = math.max(at, algorithm.begin(x[i], y[i], z[i], window[i]))
      if its ~= max[i] then
        x[i], y[i] = algorithm.under(x[i], y[i])
      end
    end
    if expires >= 9007199254740992 then
      return FOREIGN
    end
    -- A clock that has stepped back is read as standing still, so that nothing is admitted twice.
    at = math.max(at, current_since)
    local blocked_for = left_of_block(blocked_until, given)
    if forgets_strikes(request, blocked_until) then
      strikes = 0
    end

    local function save()
      for i = 1, n do
        local k = before + each * (i - 1)
        numbers[k + 1], numbers[k + 2] = stored.x[i], stored.y[i]
        if is_bucket then
          numbers[1 + 2 * n + i] = stored.max[i]
        elseif each == 3 then
          numbers[k + 3] = stored.z[i]
        end
      end
      local lasts = expires
      if blocked_until > 0 then
        lasts = math.max(lasts, blocked_until + (strikes > 0 and request.longest_block or 0))
      end
      lasts = lasts - now
      if is_bucket then
        numbers[1], numbers[fixed - 1] = newest, time and now + math.max(lasts, 0) or 0
        numbers[fixed] = is_refunded and -first or first
      end
      local count = fixed
      if blocked_until > 0 then
        numbers[count + 1], numbers[count + 2], numbers[count + 3] = blocked_until, given, strikes
        count = count + BLOCK
      end
      if current + previous > 0 then
        numbers[count + 1], numbers[count + 2], numbers[count + 3] = current, current_since, previous
        numbers[count + 4], numbers[count + 5] = previous_since, lapses
        count = count + RESERVED
      end
      set(key, pack('<' .. string.rep('d', count), unpack(numbers, 1, count)), lasts)
    end

    -- Where the clock has stepped back, nothing lives longer than if it had been written now.
    local is_cut = blocked_until - now > blocked_for and blocked_for > 0
    if is_cut then
      blocked_until = now + blocked_for
    end
    if at > now and state then
      local span = current + previous > 0 and reservation_span() or horizon()
      span = math.max(span, request.reach or 0)
      local left = call('PTTL', key)
      if expires > now + span then
        is_cut = is_cut or left < 0 or left > lasting_millis(math.max(span, blocked_for))
        expires = now + span
      end
      if left >= 0 and not is_cut then
        expires = math.min(expires, now + (left + 1) * 1000)
      end
    end
    if is_cut then
      save()
    end

    -- What is void is forgotten; but not by the end of a block, after which the clock may still
    -- step back.
    if now >= expires and operation ~= 'unblock' then
      newest, first, is_refunded, is_other, at, expires = 0, now, false, false, now, 0
      current, current_since, previous, previous_since, lapses = 0, 0, 0, 0, 0
      for i = 1, n do
        x[i], y[i], z[i] = 0, 0, 0
        stored.x[i], stored.y[i], stored.z[i], stored.max[i] = 0, 0, 0, max[i]
      end
    end

    if operation == 'block' then
      blocked_until, given = now + request.block, request.block
      save()
      return { 1 }
    end
    if operation == 'unblock' then
      if blocked_until > 0 then
        blocked_until = 0
        save()
      end
      return { blocked_for > 0 and 1 or 0 }
    end

    -- The counters and reservations at this time. Only what is written keeps them: a refusal
    -- changes nothing.
    if current + previous > 0 then
      local span = reservation_span()
      if at >= lapses then
        current, previous = 0, 0
      elseif at >= current_since + span then
        current, current_since, previous, previous_since = 0, at, current, current_since
      end
    end
    local drained_x, drained_y = x, y
    x, y = {}, {}
    for i = 1, n do
      x[i], y[i], z[i] = algorithm.at(drained_x[i], drained_y[i], z[i], a[i], b[i], at)
    end

    -- Writes what has changed; where `charges`, an amount of each limit as well. What drains is
    -- stored as it was at the time of the newest charge.
    local function written(charges)
      if is_other then
        -- What was charged at one rate is not given back at another.
        first = math.max(first, newest + 1)
      end
      if charges then
        newest = at
        for i = 1, n do
          x[i], y[i], z[i] = algorithm.charge(x[i], y[i], z[i], a[i], b[i], charges[i])
        end
      end
      local ends = current + previous > 0 and lapses or 0
      for i = 1, n do
        ends = math.max(ends, algorithm.ends(x[i], y[i], is_bucket and at or z[i], a[i], b[i]))
      end
      -- What time that stands still has left; but a calendar period ends by the clock.
      expires = now + math.min(math.max(ends - now, 0), math.max(ends - at, request.reach or 0))
      stored.x, stored.y, stored.z, stored.max = x, y, {}, max
      for i = 1, n do
        -- Where nothing is used, the next charge begins a window.
        stored.z[i] = x[i] + y[i] > 0 and z[i] or 0
      end
      if is_bucket and not charges then
        stored.x, stored.y = drained_x, drained_y
      end
      save()
    end

    -- Takes out of a bucket the least of what the charge may give back and of what is in it.
    local function refund_bucket(i)
      local amount, rest = algorithm.weight(cost, a[i], b[i])
      local drained, over, parts = algorithm.drained(math.max(at - request.ticket, 0), a[i], b[i])
      if request.ticket > newest then
        -- Of an earlier life of the key, by a clock that has stepped back since.
        return false
      elseif request.ticket < newest then
        -- The bucket may have stood empty meanwhile: what has drained since is withheld.
        amount, rest = less(amount, rest, drained, over, parts)
      end
      amount, rest = lesser(amount, rest, algorithm.level(x[i], y[i], at))
      drained_x[i], drained_y[i] = less(drained_x[i], drained_y[i], amount, rest, parts)
      x[i], y[i] = less(x[i], y[i], amount, rest, parts)
      return amount > 0 or rest > 0
    end

    local function refund()
      if is_bucket and (is_other or request.ticket < first) then
        return false
      end
      local any = false
      for i = 1, n do
        local done
        if is_bucket then
          done = refund_bucket(i)
        else
          x[i], y[i], z[i], done = algorithm.refund(x[i], y[i], z[i], max[i], window[i], cost, request.ticket, at)
        end
        any = any or done
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

    -- The cost, of each limit.
    local function costs()
      local all = {}
      for i = 1, n do
        all[i] = cost
      end
      return all
    end

    if operation == 'commit_actual' then
      local actual = request.actual
      local stays = math.min(actual, cost)
      if not take() then
        if actual == 0 or at < request.ticket + reservation_span() then
          return { 0 }
        end
        -- Nothing is known of it any more, so nothing of it is charged.
        stays = 0
      end
      -- What is more is charged until twice the capacity is used.
      local debt, dropped, charges = actual - stays, 0, {}
      for i = 1, n do
        local most = math.min(2 * (is_bucket and capacity or max)[i], MOST_COUNTED)
        local _, free = algorithm.status(x[i], y[i], z[i], is_bucket and a[i] or most, b[i], most, 0, at)
        free = math.max(free - current - previous - stays, 0)
        charges[i] = stays + math.min(debt, free)
        dropped = math.max(dropped, debt - free)
      end
      written(charges)
      return { 1, 0, 0, 0, 0, dropped, 0 }
    end
    if operation == 'refund' or operation == 'release' or operation == 'commit' then
      local done
      if operation == 'refund' then
        done = refund()
      else
        done = take()
      end
      is_refunded = is_refunded or done and operation == 'refund'
      if done then
        written(operation == 'commit' and costs())
      end
      return { done and 1 or 0 }
    end

    local wait, left, reset = {}, {}, {}
    -- Open reservations count as if they were committed now. Returns whether the limits refuse, and
    -- if any are open how long the call would wait without them.
    local function status(cost)
      local reserved, refused, released = current + previous, false, nil
      for i = 1, n do
        local p, q, r = x[i], y[i], z[i]
        if reserved > 0 then
          local own = algorithm.status(p, q, r, a[i], b[i], capacity[i], cost, at)
          released = math.max(released or 0, own)
          p, q, r = algorithm.charge(p, q, r, a[i], b[i], reserved)
        end
        wait[i], left[i], reset[i] = algorithm.status(p, q, r, a[i], b[i], capacity[i], cost, at)
        refused = refused or wait[i] > 0
      end
      return refused, released
    end

    if operation ~= 'acquire' and operation ~= 'reserve' and operation ~= 'peek' then
      return unknown(request)
    end
    local refused, released = status(cost)
    if refused and blocked_for == 0 and request.block > 0 and operation ~= 'peek' then
      given = block_after(request, strikes)
      blocked_until, strikes, blocked_for = now + given, strikes + 1, given
      save()
    end
    if refused or blocked_for > 0 or cost == 0 or operation == 'peek' then
      return verdict(wait, left, reset, at, blocked_for, expires - now, 0, released)
    end
    if strikes == 0 then
      blocked_until = 0
    end
    if operation == 'reserve' then
      if current + previous == 0 then
        current_since, previous_since = at, at
      end
      current, lapses = current + cost, at + reservation_span()
    end
    written(operation == 'acquire' and costs())
    status(0)
    return verdict(wait, left, reset, at, 0, expires - now, at)
  end
end
