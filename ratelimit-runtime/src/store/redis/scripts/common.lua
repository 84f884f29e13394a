-- What the algorithms share when they answer whatever may be asked.

local OPERATIONS = { 'acquire', 'reserve', 'peek', 'refund', 'release', 'commit', 'block', 'unblock', 'commit_actual' }

local function read(question)
  local operation, layout, _, _, n, cost, block, longest_block = parse('<BBI2I2Bddd', question)
  local request = {
    operation = OPERATIONS[operation] or 'do ' .. operation,
    layout = layout % 16,
    cost = cost,
    block = block,
    longest_block = longest_block,
    ticket = #question >= 39 + 32 * n and parse('<d', question, 32 + 32 * n) or 0,
    actual = #question >= 47 + 32 * n and parse('<d', question, 40 + 32 * n) or 0,
    n = n,
    max = {},
    window = {},
    capacity = {},
    divisor = {},
    longest = 0,
    widest = 1,
  }
  for i = 1, n do
    local window
    request.max[i], window, request.capacity[i], request.divisor[i] = parse('<dddd', question, 32 * i)
    request.window[i] = window
    if window > request.longest then
      request.longest, request.widest = window, i
    end
  end
  return request
end

-- tostring() would round to 14 digits.
local function digits(number)
  return string.format('%.0f', number)
end

-- The largest count, which is the most that a limit may owe as well.
local MOST_COUNTED = 4503599627370495

local function failed(message)
  return { err = message }
end

local function unknown(request)
  return failed('ERR this algorithm of the rate limiter cannot ' .. request.operation)
end

-- What is left of a block. Where the clock has stepped back to before it began, that is all of it.
local function left_of_block(blocked_until, block)
  return math.max(math.min(blocked_until - now, block), 0)
end

-- How long a refusal blocks the key, after so many blocks in a row.
local function block_after(request, strikes)
  return math.min(request.block * 2 ^ strikes, math.max(request.block, request.longest_block))
end

-- Whether the next block is a first one again: so long after the last, if they grow, and else at
-- its end. What changes no block leaves strikes as they are.
local function forgets_strikes(request, blocked_until)
  local operation = request.operation
  return now >= blocked_until + request.longest_block
    and (operation == 'acquire' or operation == 'reserve' or operation == 'block')
end

-- Chooses the limit that decides: of those that wait longest the first with the least left.
--
-- `wait`, `left` and `reset` hold a number per limit, counted from the time `at`, which is ahead of
-- the clock where that has stepped back. Nothing lasts longer than `life`, what is left of the
-- key's life without a block.
--
-- `ticket` is that of an admission, else 0. `released` is how long the call would wait without the
-- reservations that are open, if there are any.
--
-- In the place of a ticket a refusal has, below 0, how long the block goes on that refuses, or
-- `released`, by the clock, and 1 more.
local function verdict(wait, left, reset, at, blocked_for, life, ticket, released)
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
  if retry > 0 and released then
    ticket = -1 - (released > 0 and math.min(released + at - now, life) or 0)
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

-- What is left of the key's life, in microseconds. A clock that has stepped back must not have
-- lengthened it: it is cut to what it would be had the key been written now. Says whether it was.
local function life_of(key, longest)
  local left = call('PTTL', key)
  local is_cut = left > lasting_millis(longest) or left == -1
  if is_cut then
    expire(key, longest)
    left = math.ceil(longest / 1000)
  end
  return (left + 1) * 1000, is_cut
end

local function record(verdict, calls)
  if #verdict == 1 then
    return pack(RECORD, verdict[1], 0, calls, 0, 0, 0, 0), calls
  end
  local allowed, limit, remaining, retry, reset, ticket, blocked = unpack(verdict)
  return pack(RECORD, allowed + 2 * blocked, limit, calls, remaining, retry, reset, ticket), calls
end

-- How an algorithm answers `calls` calls of one question, or the first of them. A call that is
-- refused without setting a block changes nothing, so all the others are refused alike.
local function answering(decide)
  return function(key, question, calls)
    local request = read(question)
    -- An entry is looked for.
    work = work + (request.ticket > 0 and 2 or 1)
    local verdict = decide(key, request, question)
    if verdict.err then
      return verdict
    end
    local alike = verdict[1] == 0 and (request.block == 0 or calls == 1 or #verdict == 1)
    return record(verdict, alike and calls or 1)
  end
end
