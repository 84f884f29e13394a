-- Algorithms that keep three numbers per limit, as one string of doubles:
--
--   newest   the time of the newest charge
--   ban      until when the key is banned, or 0
--   held     how much of what was charged is reserved
--   held_at  when something was last reserved
--   expires  when what was charged is void; a ban may last longer, and the key itself lives a little longer
--   born     when the first of it was charged: what was charged before is gone
--   then three numbers per limit, whose meaning is the algorithm's
--
-- An algorithm is a table of functions of the three numbers x, y, z:
--
--   at(x, y, z, max, window, now)                         x, y, z at `now`
--   standing(x, y, z, max, window, capacity, cost, now)   wait, left, reset
--   charge(x, y, z, max, window, cost)                    x, y, z
--   refund(x, y, z, max, window, cost, since, now)        x, y, z, whether anything was given back
--   life(x, y, z, max, window, now)                       how long the numbers matter
--
-- The arithmetic is that of the functions of the same names in `src/algorithm`.

-- floor(a * b / m), and the rest. Exact for numbers below 2^53 as long as the quotient is.
local function mul_div(a, b, m)
  local product = a * b
  if product < 9007199254740992 then
    local rest = product % m
    return (product - rest) / m, rest
  end
  -- Bit by bit of `a`; neither sum nor difference ever leaves 2^53.
  local part = b % m
  local quotient, rest = a * ((b - part) / m), 0
  local low = 0
  local bit = 4503599627370496
  while bit >= 1 do
    low = low + low
    if rest >= m - rest then
      rest = rest - (m - rest)
      low = low + 1
    else
      rest = rest + rest
    end
    if a >= bit then
      a = a - bit
      if rest >= m - part then
        rest = rest - (m - part)
        low = low + 1
      else
        rest = rest + part
      end
    end
    bit = bit / 2
  end
  return quotient + low, rest
end

local function cells(algorithm)
  return function(key, request)
    local mode, n, cost = request.mode, request.n, request.cost
    local max, window, capacity = request.max, request.window, request.capacity
    local state = call('GET', key)
    local numbers
    if state then
      if #state ~= 48 + 24 * n then
        return redis.error_reply('WRONGTYPE the key does not hold a bucket of these limits')
      end
      numbers = { struct.unpack('<' .. string.rep('d', 6 + 3 * n), state) }
    end
    if not state or now >= numbers[5] then
      local ban = state and numbers[2] or 0
      state = ban > now and state or nil
      numbers = {}
      for i = 1, 6 + 3 * n do
        numbers[i] = 0
      end
      if ban > now then
        numbers[2] = ban
      end
    end
    local newest, ban, held, held_at, expires = numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]
    local born = numbers[6]
    local at = math.max(now, newest)
    if at >= held_at + request.longest then
      held = 0
    end

    -- How long anything may live that is written for this request, and how long this key does.
    local horizon = 0
    for i = 1, n do
      horizon = math.max(horizon, algorithm.horizon(max[i], window[i], capacity[i]))
    end
    if newest > now then
      -- The clock stepped back. What is kept lives no longer than if it had been written now.
      expires = math.min(expires, now + math.max(horizon, request.ban))
      ban = math.min(ban, now + math.max(horizon, request.ban))
      life_of(key, math.max(horizon, request.ban))
    end

    -- The cells at this time. Only a charge or a refund keeps them: a refusal changes nothing.
    local x, y, z = {}, {}, {}
    for i = 1, n do
      local k = 4 + 3 * i
      x[i], y[i], z[i] = algorithm.at(numbers[k], numbers[k + 1], numbers[k + 2], max[i], window[i], at)
    end

    local wait, left, reset = {}, {}, {}
    local function stand(cost)
      local longest = 0
      for i = 1, n do
        wait[i], left[i], reset[i] =
          algorithm.standing(x[i], y[i], z[i], max[i], window[i], capacity[i], cost, at)
        longest = math.max(longest, wait[i])
      end
      return longest
    end

    local function keep()
      for i = 1, n do
        local k = 4 + 3 * i
        numbers[k], numbers[k + 1], numbers[k + 2] = x[i], y[i], z[i]
      end
    end

    local function save()
      numbers[1], numbers[2], numbers[3], numbers[4], numbers[5] = newest, ban, held, held_at, expires
      numbers[6] = born
      local lasts = math.max(expires, ban) - now
      if lasts > 0 then
        set(key, struct.pack('<' .. string.rep('d', 6 + 3 * n), unpack(numbers)), lasts)
      else
        call('DEL', key)
      end
    end

    if mode == 'acquire' or mode == 'reserve' or mode == 'peek' then
      local longest = stand(cost)
      if longest > 0 then
        -- Without the open reservations, what would be in the way?
        local exceeded = false
        for i = 1, n do
          local a, b, c = x[i], y[i], z[i]
          if held > 0 then
            a, b, c = algorithm.refund(a, b, c, max[i], window[i], held, held_at, at)
          end
          local unheld = algorithm.standing(a, b, c, max[i], window[i], capacity[i], cost, at)
          exceeded = exceeded or unheld > 0
          wait[i] = math.min(wait[i], math.max(unheld, HELD_WAIT))
        end
        if exceeded and ban <= now and request.ban > 0 and mode ~= 'peek' then
          ban = now + request.ban
          save()
        end
        return verdict(wait, left, reset, at, ban, expires - now, 0)
      end
      if mode == 'peek' or ban > now or cost == 0 then
        return verdict(wait, left, reset, at, ban, expires - now, 0)
      end
      local lasts = 0
      for i = 1, n do
        x[i], y[i], z[i] = algorithm.charge(x[i], y[i], z[i], max[i], window[i], cost)
        lasts = math.max(lasts, algorithm.life(x[i], y[i], z[i], max[i], window[i], at))
      end
      newest = at
      if born == 0 then
        born = at
      end
      expires = now + lasts
      if mode == 'reserve' then
        held, held_at = held + cost, at
      end
      keep()
      save()
      stand(0)
      return verdict(wait, left, reset, at, ban, expires - now, at)
    end

    if mode == 'block' then
      ban = now + request.ban
      save()
      return { 1 }
    end
    if not state then
      return { 0 }
    end
    if mode == 'unblock' then
      local banned = ban > now
      if banned then
        ban = 0
        save()
      end
      return { banned and 1 or 0 }
    end
    -- refund, return, commit
    if mode ~= 'commit' and (born == 0 or request.ticket < born) then
      return { 0 }
    end
    local was_held = held > 0
    if mode ~= 'refund' then
      held = math.max(held - cost, 0)
    end
    local any = was_held
    if mode ~= 'commit' then
      any = false
      for i = 1, n do
        local given
        x[i], y[i], z[i], given = algorithm.refund(x[i], y[i], z[i], max[i], window[i], cost, request.ticket, at)
        any = any or given
      end
      if any then
        keep()
      end
    end
    if any or was_held then
      save()
    end
    return { any and 1 or 0 }
  end
end
