-- Several limits on a key, in the place of the one-limit path of leaky_bucket: newest, x and y of each limit | max of each, ends, first.
local states
if #KEYS > 1 then
  states = try('MGET', unpack(KEYS))
else
  states = { try('GET', KEYS[1]) }
end
for q = 2, #ARGV do
  local operation, _, calls, covers, limits, cost, block = parse(QUESTION, ARGV[q])
  local is_acquire = operation == 1
  local size = 24 + 24 * limits
  local ALL, HEAD = '<' .. string.rep('d', size / 8), '<d' .. string.rep('dd', limits)
  local per, micros, most, weight, of, span = {}, {}, {}, {}, {}, 0
  local is_quick = operation % 2 == 1 and operation < 4 and cost > 0
  for limit = 1, limits do
    local max, window, capacity, divisor = parse('<dddd', ARGV[q], 32 * limit)
    of[limit], per[limit], micros[limit] = max, max / divisor, window / divisor
    most[limit], weight[limit] = capacity * micros[limit], cost * micros[limit]
    local lasts = (most[limit] + -most[limit] % per[limit]) / per[limit]
    span = lasts > span and lasts or span
    is_quick = is_quick and most[limit] + per[limit] < EXACT
  end
  local ends_at = now + span
  local fresh_expiry, later
  for i = answered + 1, answered + covers do
    count, record = FULL, ''
    repeat
      local state = states[i]
      if state == nil or not is_quick or not state and not is_acquire or state and #state ~= size then
        break
      end
      local numbers
      if state then
        numbers = { parse(ALL, state) }
      else
        numbers = { now }
        for limit = 1, limits do
          numbers[2 * limit], numbers[2 * limit + 1], numbers[2 * limits + 1 + limit] = now, 0, of[limit]
        end
        numbers[3 * limits + 2], numbers[3 * limits + 3] = 0, now
      end
      if numbers[1] > now then
        break
      end
      local admitted, is_other = calls, false
      for limit = 1, limits do
        local x, y = numbers[2 * limit], numbers[2 * limit + 1]
        if numbers[2 * limits + 1 + limit] ~= of[limit] then
          is_other = true
          break
        end
        if x < now then
          x, y = now, 0
          numbers[2 * limit], numbers[2 * limit + 1] = x, y
        end
        local spare, its = most[limit] - (x - now) * per[limit] - y, weight[limit]
        if spare < its * admitted then
          admitted = spare < its and 0 or (spare - spare % its) / its
        end
      end
      if is_other then
        break
      end
      if admitted == 0 or not is_acquire then
        if block == 0 then
          count, record = STORED + #state, state
        end
        break
      end
      local until_then = 0
      numbers[1] = now
      for limit = 1, limits do
        local units = admitted * weight[limit] + numbers[2 * limit + 1]
        local y = units % per[limit]
        local x = numbers[2 * limit] + (units - y) / per[limit]
        numbers[2 * limit], numbers[2 * limit + 1] = x, y
        until_then = x > until_then and x or until_then
      end
      record = pack(HEAD, unpack(numbers))
      local reply
      if state and until_then < numbers[3 * limits + 2] and is_server then
        reply = try('SETRANGE', KEYS[i], '0', record)
        if reply == #state then
          count = admitted
        else
          count, record = FAILED, reply.err
        end
        break
      end
      if state then
        later = now + 2 * span
        numbers[3 * limits + 2] = later
        reply = try('SET', KEYS[i], pack(ALL, unpack(numbers)), EXPIRY, EXPIRE(later))
      else
        numbers[3 * limits + 2] = ends_at
        fresh_expiry = fresh_expiry or EXPIRE(ends_at)
        reply = try('SET', KEYS[i], pack(ALL, unpack(numbers)), EXPIRY, fresh_expiry, 'NX')
      end
      if reply and reply.ok then
        count = admitted
      else
        count, record = FAILED, reply and reply.err or WRONGTYPE
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
