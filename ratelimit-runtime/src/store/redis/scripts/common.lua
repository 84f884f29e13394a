-- What all scripts share. A script is this file, the files of one or more kinds of keys, and a last line or file.
--
-- KEYS    the keys
-- ARGV    the time in microseconds, or '' for the server's own clock; then for each key
--           kind       how it is kept: zset, ring, or the name of another algorithm
--           operation  acquire | reserve | peek | refund | release | commit | block | unblock
--                      (release gives a reservation back; commit makes it an ordinary charge)
--           cost
--           block      microseconds; for acquire and reserve: of whoever the limits refuse; for block: how long. 0: none
--           ticket     for refund, release and commit
--           n          how many limits, and for each of them
--           max, window in microseconds, capacity
--
-- Reply   for acquire, reserve and peek for each key
--           { allowed, deciding limit from 0, remaining, retry_after, reset_after, ticket, blocked };
--         for the others { 1 or 0: whether there was anything }.
--         All times are in microseconds. An operation that a kind does not know is an error.
--
-- Numbers are doubles: counts are below 2^52 and times below 2^51, so that the sum of two is exact.

local call = redis.call

local now
if ARGV[1] == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
else
  now = tonumber(ARGV[1])
end

-- tostring() would round to 14 digits.
local function digits(number)
  return string.format('%.0f', number)
end

-- The longest wait for a call that is refused only because of open reservations.
local RESERVED_WAIT = 50000

local cursor = 2

-- The request for the next key.
local function next_request()
  local request = {
    kind = ARGV[cursor],
    operation = ARGV[cursor + 1],
    cost = tonumber(ARGV[cursor + 2]),
    block = tonumber(ARGV[cursor + 3]),
    ticket = tonumber(ARGV[cursor + 4]),
    n = tonumber(ARGV[cursor + 5]),
    max = {},
    window = {},
    capacity = {},
    longest = 0,
  }
  cursor = cursor + 6
  for i = 1, request.n do
    local window = tonumber(ARGV[cursor + 1])
    request.max[i] = tonumber(ARGV[cursor])
    request.window[i] = window
    request.capacity[i] = tonumber(ARGV[cursor + 2])
    if window > request.longest then
      request.longest = window
    end
    cursor = cursor + 3
  end
  return request
end

local function unknown(request)
  return redis.error_reply('ERR the rate limiter keeps no ' .. request.kind .. ' that can ' .. request.operation)
end

-- What is left of a block. Where the clock has stepped back to before it began, that is all of it.
local function left_of_block(blocked_until, block)
  return math.max(math.min(blocked_until - now, block), 0)
end

-- Chooses the limit that decides: of those that wait longest the first with the least left.
--
-- `wait`, `left` and `reset` hold a number per limit, counted from the time `at`, which is ahead of the clock where
-- that has stepped back. Nothing lasts longer than `life`, what is left of the key's life without a block.
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
    return { 0, index - 1, left[index], math.max(retry, blocked_for), math.max(whole, blocked_for), 0, 1 }
  end
  return { wait[index] == 0 and 1 or 0, index - 1, left[index], retry, whole, ticket, 0 }
end

-- Redis removes a key only after its last millisecond has passed, so with the server's own clock nothing ends early.
-- Short lives are drawn out to 10 ms, because a script that takes longer would delete what it has just written; with a
-- client's clock, whose pace may differ, to a second. The scripts themselves know what still counts.
local shortest = ARGV[1] == '' and 10000 or 1000000

local function last_milli(lasts)
  return math.floor((now + math.max(lasts, shortest)) / 1000)
end

local function lasting_millis(lasts)
  return math.ceil(math.max(lasts, shortest) / 1000)
end

local function expire(key, lasts)
  if ARGV[1] == '' then
    call('PEXPIREAT', key, digits(last_milli(lasts)))
  else
    call('PEXPIRE', key, digits(lasting_millis(lasts)))
  end
end

local function set(key, value, lasts)
  if ARGV[1] == '' then
    call('SET', key, value, 'PXAT', digits(last_milli(lasts)))
  else
    call('SET', key, value, 'PX', digits(lasting_millis(lasts)))
  end
end

-- What is left of the key's life, in microseconds. A clock that has stepped back must not have lengthened it: it is
-- cut to what it would be had the key been written now.
local function life_of(key, longest)
  local left = call('PTTL', key)
  if left > lasting_millis(longest) or left == -1 then
    expire(key, longest)
    left = math.ceil(longest / 1000)
  end
  return (left + 1) * 1000
end
