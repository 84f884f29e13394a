local call, pack, parse = redis.call, struct.pack, struct.unpack
local work, most_work = 0, 1e9
local QUESTION = '<BBI2dddBddd'
local RECORD = '<BBI2dddd'
local now, time, base, shortest
local EXPIRY, EXPIRE = 'PXAT', 'PEXPIREAT'
if ARGV[1] == '' then
  time = call('TIME')
  now = time[1] * 1000000 + time[2]
  base, shortest = now, 10000
else
  now = tonumber(ARGV[1])
  base, shortest = 999, 1000000
  EXPIRY, EXPIRE = 'PX', 'PEXPIRE'
end
local may_answer, key, question, calls = #KEYS == 1, KEYS[1], ARGV[3], nil
local operation, algorithm, all, cost, block, _, limits, max, window, capacity = parse(QUESTION, question)
local peeks = operation == 3
local asks = may_answer and (operation == 1 or peeks) and cost > 0
local layout = algorithm % 16
algorithm = (algorithm - layout) / 16
local record, answered
calls = calls or all
repeat
  if not asks then
    break
  end
  local EXACT, NONE = 9007199254740992, 4503599627370496
  local first, expires, x, y, z = now, now, 0, 0, 0
  local older, older_low, older_rest, newer, newer_low, newer_rest
  local state = call('GET', key)
  if state then
    if #state ~= 48 + 72 * limits then
      break
    end
    local newest, blocked_until, _, until_then, ticket
    newest, blocked_until, _, until_then, ticket, _, x, y, z,
      older, older_low, older_rest, newer, newer_low, newer_rest = parse('<ddddddddddddddd', state)
    if newest > now or blocked_until > 0 then
      break
    end
    if now < until_then then
      first, expires = ticket < now and ticket or now, until_then
    else
      state, x = nil, 0
    end
  end
  local admitted = calls
  local decides, wait, left, reset = 0, 0, EXACT, 0
  local levels = { 0, 0, 0 }
  for i = 1, limits do
    if i > 1 then
      max, window, capacity = parse('<ddd', question, 24 * i + 6)
      if state then
        x, y, z = parse('<ddd', state, 72 * i - 23)
      end
    end
    if x < now then
      x, y = now, 0
    end
    if z ~= max and y > 0 then
      x, y = x + 1, 0
    end
    local scale = 1
    if (capacity + 1) * window + max >= EXACT then
      local rest = window
      scale = max
      while rest > 0 do
        scale, rest = rest, scale % rest
      end
    end
    local per_micros, micros, parts = max / scale, window / scale, y / scale
    local level = x - now
    if (capacity + 1) * micros + per_micros >= EXACT or level * per_micros >= EXACT - 2 * micros - per_micros
      or parts % 1 > 0 then
      admitted = nil
      break
    end
    local tokens = level * per_micros + parts
    local room, waits = capacity - (tokens + -tokens % micros) / micros, 0
    local fits = (room - room % cost) / cost
    if fits <= 0 then
      local full = (capacity - cost) * micros
      local rest = full % per_micros
      fits, waits, room = 0, level - (full - rest) / per_micros + (parts > rest and 1 or 0), room > 0 and room or 0
    end
    if waits > wait or waits == wait and room < left then
      decides, wait, left, reset = i - 1, waits, room, level + (y > 0 and 1 or 0)
    end
    if fits < admitted then
      admitted = fits
    end
    levels[3 * i - 2], levels[3 * i - 1], levels[3 * i] = level, y, scale
  end
  if not admitted then
    break
  end
  if admitted == 0 or peeks then
    local life = expires - now
    if peeks or block == 0 then
      record, answered = pack(RECORD, wait == 0 and 1 or 0, decides, calls, left, wait < life and wait or life,
        reset < life and reset or life, 0), calls
    end
    break
  end
  local lasts, states = 0, nil
  for i = 1, limits do
    if limits > 1 then
      max, window = parse('<dd', question, 24 * i + 6)
      if state then
        z, older, older_low, older_rest, newer, newer_low, newer_rest = parse('<ddddddd', state, 72 * i - 7)
      end
    end
    local level, parts, scale = levels[3 * i - 2], levels[3 * i - 1], levels[3 * i]
    local per_micros, micros = max / scale, window / scale
    local is_fresh, moved = level == 0 and parts == 0 or z ~= max, false
    if is_fresh then
      older, older_low, older_rest, newer, newer_low, newer_rest = now, NONE, 0, now, NONE, 0
    else
      if level < older_low or level == older_low and parts < older_rest then
        older_low, older_rest = level, parts
      end
      if level < newer_low or level == newer_low and parts < newer_rest then
        newer_low, newer_rest = level, parts
      end
      moved = now >= newer + window
      if moved then
        older, older_low, older_rest, newer, newer_low, newer_rest = newer, newer_low, newer_rest, now, NONE, 0
      end
    end
    if admitted > 1 and (is_fresh or moved) then
      local units = cost * micros + parts / scale
      newer_rest = units % per_micros * scale
      newer_low = level + (units - units % per_micros) / per_micros
      if is_fresh then
        older_low, older_rest = newer_low, newer_rest
      end
    end
    local units = admitted * cost * micros + parts / scale
    local rest = units % per_micros
    level = level + (units - rest) / per_micros
    local life = level + (rest > 0 and 1 or 0)
    if life > lasts then
      lasts = life
    end
    if i == decides + 1 then
      reset = life
    end
    local numbers =
      pack('<ddddddddd', now + level, rest * scale, max, older, older_low, older_rest, newer, newer_low, newer_rest)
    states = states and states .. numbers or numbers
  end
  local kept = base + (lasts < shortest and shortest or lasts)
  call('SET', key, pack('<dddddd', now, 0, 0, now + lasts, first, now) .. states, EXPIRY, (kept - kept % 1000) / 1000)
  record, answered = pack(RECORD, 1, decides, admitted, left - admitted * cost, 0, reset, now), admitted
until true
if answered == calls then
  return ARGV[2] .. record
end
local records, left = record, calls - (answered or 0)
local function quick(may_answer, key, question, calls)
local operation, algorithm, all, cost, block, _, limits, max, window, capacity = parse(QUESTION, question)
local peeks = operation == 3
local asks = may_answer and (operation == 1 or peeks) and cost > 0
local layout = algorithm % 16
algorithm = (algorithm - layout) / 16
local record, answered
calls = calls or all
repeat
  if not asks then
    break
  end
  local EXACT, NONE = 9007199254740992, 4503599627370496
  local first, expires, x, y, z = now, now, 0, 0, 0
  local older, older_low, older_rest, newer, newer_low, newer_rest
  local state = call('GET', key)
  if state then
    if #state ~= 48 + 72 * limits then
      break
    end
    local newest, blocked_until, _, until_then, ticket
    newest, blocked_until, _, until_then, ticket, _, x, y, z,
      older, older_low, older_rest, newer, newer_low, newer_rest = parse('<ddddddddddddddd', state)
    if newest > now or blocked_until > 0 then
      break
    end
    if now < until_then then
      first, expires = ticket < now and ticket or now, until_then
    else
      state, x = nil, 0
    end
  end
  local admitted = calls
  local decides, wait, left, reset = 0, 0, EXACT, 0
  local levels = { 0, 0, 0 }
  for i = 1, limits do
    if i > 1 then
      max, window, capacity = parse('<ddd', question, 24 * i + 6)
      if state then
        x, y, z = parse('<ddd', state, 72 * i - 23)
      end
    end
    if x < now then
      x, y = now, 0
    end
    if z ~= max and y > 0 then
      x, y = x + 1, 0
    end
    local scale = 1
    if (capacity + 1) * window + max >= EXACT then
      local rest = window
      scale = max
      while rest > 0 do
        scale, rest = rest, scale % rest
      end
    end
    local per_micros, micros, parts = max / scale, window / scale, y / scale
    local level = x - now
    if (capacity + 1) * micros + per_micros >= EXACT or level * per_micros >= EXACT - 2 * micros - per_micros
      or parts % 1 > 0 then
      admitted = nil
      break
    end
    local tokens = level * per_micros + parts
    local room, waits = capacity - (tokens + -tokens % micros) / micros, 0
    local fits = (room - room % cost) / cost
    if fits <= 0 then
      local full = (capacity - cost) * micros
      local rest = full % per_micros
      fits, waits, room = 0, level - (full - rest) / per_micros + (parts > rest and 1 or 0), room > 0 and room or 0
    end
    if waits > wait or waits == wait and room < left then
      decides, wait, left, reset = i - 1, waits, room, level + (y > 0 and 1 or 0)
    end
    if fits < admitted then
      admitted = fits
    end
    levels[3 * i - 2], levels[3 * i - 1], levels[3 * i] = level, y, scale
  end
  if not admitted then
    break
  end
  if admitted == 0 or peeks then
    local life = expires - now
    if peeks or block == 0 then
      record, answered = pack(RECORD, wait == 0 and 1 or 0, decides, calls, left, wait < life and wait or life,
        reset < life and reset or life, 0), calls
    end
    break
  end
  local lasts, states = 0, nil
  for i = 1, limits do
    if limits > 1 then
      max, window = parse('<dd', question, 24 * i + 6)
      if state then
        z, older, older_low, older_rest, newer, newer_low, newer_rest = parse('<ddddddd', state, 72 * i - 7)
      end
    end
    local level, parts, scale = levels[3 * i - 2], levels[3 * i - 1], levels[3 * i]
    local per_micros, micros = max / scale, window / scale
    local is_fresh, moved = level == 0 and parts == 0 or z ~= max, false
    if is_fresh then
      older, older_low, older_rest, newer, newer_low, newer_rest = now, NONE, 0, now, NONE, 0
    else
      if level < older_low or level == older_low and parts < older_rest then
        older_low, older_rest = level, parts
      end
      if level < newer_low or level == newer_low and parts < newer_rest then
        newer_low, newer_rest = level, parts
      end
      moved = now >= newer + window
      if moved then
        older, older_low, older_rest, newer, newer_low, newer_rest = newer, newer_low, newer_rest, now, NONE, 0
      end
    end
    if admitted > 1 and (is_fresh or moved) then
      local units = cost * micros + parts / scale
      newer_rest = units % per_micros * scale
      newer_low = level + (units - units % per_micros) / per_micros
      if is_fresh then
        older_low, older_rest = newer_low, newer_rest
      end
    end
    local units = admitted * cost * micros + parts / scale
    local rest = units % per_micros
    level = level + (units - rest) / per_micros
    local life = level + (rest > 0 and 1 or 0)
    if life > lasts then
      lasts = life
    end
    if i == decides + 1 then
      reset = life
    end
    local numbers =
      pack('<ddddddddd', now + level, rest * scale, max, older, older_low, older_rest, newer, newer_low, newer_rest)
    states = states and states .. numbers or numbers
  end
  local kept = base + (lasts < shortest and shortest or lasts)
  call('SET', key, pack('<dddddd', now, 0, 0, now + lasts, first, now) .. states, EXPIRY, (kept - kept % 1000) / 1000)
  record, answered = pack(RECORD, 1, decides, admitted, left - admitted * cost, 0, reset, now), admitted
until true
return record, answered, calls
end
local function full(algorithm)
local OPERATIONS = { 'acquire', 'reserve', 'peek', 'refund', 'release', 'commit', 'block', 'unblock' }
local function read(question)
  local operation, layout, _, cost, block, ticket, n, at = parse('<BBI2dddB', question)
  local request = {
    operation = OPERATIONS[operation] or 'do ' .. operation,
    layout = layout % 16,
    cost = cost,
    block = block,
    ticket = ticket,
    n = n,
    max = {},
    window = {},
    capacity = {},
    longest = 0,
  }
  for i = 1, n do
    local window
    request.max[i], window, request.capacity[i], at = parse('<ddd', question, at)
    request.window[i] = window
    if window > request.longest then
      request.longest = window
    end
  end
  return request
end
local function digits(number)
  return string.format('%.0f', number)
end
local RESERVED_WAIT = 50000
local function failed(message)
  return { err = message }
end
local function unknown(request)
  return failed('ERR this algorithm of the rate limiter cannot ' .. request.operation)
end
local function left_of_block(blocked_until, block)
  return math.max(math.min(blocked_until - now, block), 0)
end
local function verdict(wait, left, reset, at, blocked_for, life, ticket)
  local index = 1
  for i = 2, #wait do
    if wait[i] > wait[index] or wait[i] == wait[index] and left[i] < left[index] then
      index = i
    end
  end
  local retry, whole = wait[index], reset[index]
  if retry > 0 then
    retry = math.min(retry + at - now, life)
  end
  if whole > 0 then
    whole = math.min(whole + at - now, life)
  end
  if blocked_for > 0 then
    return { 0, index - 1, left[index], math.max(retry, blocked_for), math.max(whole, blocked_for), -blocked_for, 1 }
  end
  return { wait[index] == 0 and 1 or 0, index - 1, left[index], retry, whole, ticket, 0 }
end
local function millis(lasts)
  return math.floor((base + math.max(lasts, shortest)) / 1000)
end
local function lasting_millis(lasts)
  return math.ceil(math.max(lasts, shortest) / 1000)
end
local function expire(key, lasts)
  call(EXPIRE, key, millis(lasts))
end
local function set(key, value, lasts)
  call('SET', key, value, EXPIRY, millis(lasts))
end
local function life_of(key, longest)
  local left = call('PTTL', key)
  if left > lasting_millis(longest) or left == -1 then
    expire(key, longest)
    left = math.ceil(longest / 1000)
  end
  return (left + 1) * 1000
end
local function record(verdict, calls)
  if #verdict == 1 then
    return pack(RECORD, verdict[1], 0, calls, 0, 0, 0, 0), calls
  end
  local allowed, limit, remaining, retry, reset, ticket, blocked = unpack(verdict)
  return pack(RECORD, allowed + 2 * blocked, limit, calls, remaining, retry, reset, ticket), calls
end
local function answering(decide)
  return function(key, question, calls)
    work = work + 1
    local request = read(question)
    local verdict = decide(key, request)
    if verdict.err then
      return verdict
    end
    local alike = verdict[1] == 0 and (request.block == 0 or calls == 1 or #verdict == 1)
    return record(verdict, alike and calls or 1)
  end
end
local function mul_div(a, b, m)
  local product = a * b
  if product < 9007199254740992 then
    local rest = product % m
    return (product - rest) / m, rest
  end
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
local function refill(tokens, rest, max, window)
  local time, over = mul_div(tokens, window, max)
  return time + math.ceil((over + rest) / max)
end
local NONE = 4503599627370496
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
    if not state or now >= numbers[4] and operation ~= 'unblock' then
      local block = state and left_of_block(numbers[2], numbers[3]) > 0
      numbers = { 0, block and numbers[2] or 0, block and numbers[3] or 0, 0, NONE, 0 }
      for i = HEADER + 1, fixed do
        numbers[i] = 0
      end
      count = fixed
    end
    local newest, blocked_until, block, expires, first, charged = unpack(numbers, 1, HEADER)
    local at = math.max(now, newest)
    local function save()
      numbers[1], numbers[2], numbers[3] = newest, blocked_until, block
      numbers[4], numbers[5], numbers[6] = expires, first, charged
      local lasts = math.max(expires, blocked_until) - now
      set(key, struct.pack('<' .. string.rep('d', count), unpack(numbers, 1, count)), lasts)
    end
    local function horizon()
      local longest = 0
      for i = 1, n do
        longest = math.max(longest, algorithm.horizon(max[i], window[i], capacity[i]))
      end
      return longest
    end
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
    local x, y, z = {}, {}, {}
    for i = 1, n do
      local k = HEADER + EACH * (i - 1)
      x[i], y[i], z[i] = algorithm.at(numbers[k + 1], numbers[k + 2], numbers[k + 3], max[i], window[i], at)
    end
    local current, current_since, previous, previous_since, reserved_at = 0, 0, 0, 0, 0
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
local function under(x, y, z, max)
  if z ~= max then
    return y > 0 and x + 1 or x, 0
  end
  return x, y
end
local leaky_bucket = counters {
  at = function(x, y, z, max, window, now)
    if x < now then
      return now, 0, z
    end
    return x, y, z
  end,
  status = function(x, y, z, max, window, capacity, cost, now)
    x, y = under(x, y, z, max)
    local backlog = x - now
    local time, rest = mul_div(math.max(capacity - cost, 0), window, max)
    local wait = math.max(backlog - time + (y > rest and 1 or 0), 0)
    local tokens, units = mul_div(backlog, max, window)
    tokens = tokens + math.ceil((units + y) / window)
    return wait, math.max(capacity - tokens, 0), backlog + (y > 0 and 1 or 0)
  end,
  charge = function(x, y, z, max, window, cost)
    x, y = under(x, y, z, max)
    local time, rest = mul_div(cost, window, max)
    local sum = y + rest
    local over = sum % max
    return x + time + (sum - over) / max, over, max
  end,
  life = function(x, y, z, max, window, now)
    return x - now + (y > 0 and 1 or 0)
  end,
  horizon = function(max, window, capacity)
    return refill(capacity, 0, max, window)
  end,
  level = function(x, y, z, max, now)
    return (z ~= max or x == now and y == 0) and -1 or x - now, y
  end,
  with_level = function(x, y, z, now, level, rest)
    return now + level, rest, z
  end,
  weight = function(z, max, window, cost)
    local parts = math.max(z, 1)
    local time, rest = mul_div(cost, window, parts)
    return time, rest, parts
  end,
}
return answering(leaky_bucket)
end
local made = {}
local is_enough = false
local function later(calls, records)
  is_enough = true
  return (records or '') .. pack(RECORD, 64, 0, calls, 0, 0, 0, 0)
end
local function answer(key, question, calls, records)
  if is_enough then
    local _, _, all = parse('<BBI2', question)
    return later(all)
  end
  repeat
    local record, answered, all = quick(true, key, question, calls)
    calls = calls or all
    if not record then
      if work >= most_work then
        return later(calls, records)
      end
      local algorithm = math.floor(string.byte(question, 2) / 16)
      made[algorithm] = made[algorithm] or full(algorithm)
      if not made[algorithm] then
        return { err = 'ERR the rate limiter knows no algorithm ' .. algorithm }
      end
      record, answered = made[algorithm](key, question, calls)
      if type(record) == 'table' then
        return record
      end
    end
    calls = calls - answered
    records = records and records .. record or record
  until calls == 0
  return records
end
most_work = 12
if #KEYS == 1 then
  local reply = answer(KEYS[1], ARGV[3], left, records)
  return type(reply) == 'table' and reply or ARGV[2] .. reply
end
local replies = {}
for i = 1, #KEYS do
  local done, reply = pcall(answer, KEYS[i], ARGV[i + 2])
  if not done or type(reply) == 'table' then
    local message = type(reply) == 'table' and reply.err or tostring(reply)
    reply = pack('<BBI2', 128, 0, #message) .. message
  end
  replies[i] = reply
end
return ARGV[2] .. table.concat(replies)
