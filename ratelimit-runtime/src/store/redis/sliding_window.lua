-- An exact sliding window, as a log of admissions in a sorted set.
--
-- KEYS[1]  the bucket. Each member is one admission: an integer in microseconds, which is also its score.
--          Members are unique: an admission in the microsecond of the newest one, or before it, comes one later.
-- ARGV[1]  'acquire' charges the cost if it fits, 'peek' only looks
-- ARGV[2]  the time in microseconds; '' means the server's own clock
-- ARGV[3]  max, what is admitted in any window
-- ARGV[4]  cost, from 1 to max; it takes as many members
-- ARGV[5]  window in microseconds
--
-- Reply    { allowed 0 or 1, remaining after the charge, retry_after, reset_after }, times in microseconds
--
-- Runs on Redis 6.0 and later. Numbers stay below 2^53, where Lua's doubles are exact.

local call = redis.call
local key = KEYS[1]
local max, cost, window = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local now
if ARGV[2] == '' then
  local time = call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
else
  now = tonumber(ARGV[2])
end

-- tostring() would round to 14 digits.
local function digits(number)
  return string.format('%.0f', number)
end

local ttl = math.ceil(window / 1000) -- milliseconds
local logged, expired = 0, 0
local newest = call('ZRANGE', key, -1, -1)[1]
if newest then
  newest = tonumber(newest)
  if not newest then
    return redis.error_reply('WRONGTYPE the key does not hold a rate limiter log')
  end
  if newest + window <= now then
    if ARGV[1] == 'acquire' then
      call('UNLINK', key)
    end
    newest = nil
  else
    logged = call('ZCARD', key)
    expired = call('ZCOUNT', key, '-inf', digits(now - window))
  end
end
local live = logged - expired

-- The reply, once everything is charged. `left` is the key's remaining life in milliseconds where that is known.
local function reply(allowed, remaining, retry, left)
  local reset = newest and newest + window - now or 0
  if newest and newest > now then
    -- The clock was set back. Entries then seem younger than they are; the key's own expiry bounds how long they
    -- count, and that must not exceed the window either.
    left = left or call('PTTL', key)
    if left > ttl or left < 0 then
      call('PEXPIRE', key, ttl)
      left = ttl
    end
    local gone = (left + 1) * 1000
    retry = math.min(retry, gone)
    reset = math.min(reset, gone)
  end
  return { allowed, remaining, retry, reset }
end

if live + cost > max then
  -- This call fits when so many of the oldest entries have expired that the others leave room for its cost.
  local freed = math.min(logged + cost - max, logged) - 1
  local retry = tonumber(call('ZRANGE', key, freed, freed)[1]) + window - now
  return reply(0, math.max(max - live, 0), retry)
end

if ARGV[1] ~= 'acquire' then
  return reply(1, max - live, 0)
end

local first = now
if newest and newest >= now then
  first = newest + 1
end
-- The insertion comes before the trimming, because only a script's first write is refused for lack of memory.
for from = 0, cost - 1, 1000 do
  local entries = {}
  for offset = from, math.min(from + 1000, cost) - 1 do
    local entry = digits(first + offset)
    entries[#entries + 1] = entry
    entries[#entries + 1] = entry
  end
  call('ZADD', key, unpack(entries))
end
newest = first + cost - 1
if expired > 0 then
  -- A bounded piece of work per call, yet never less than what was added.
  call('ZREMRANGEBYRANK', key, 0, math.min(expired, math.max(64, cost)) - 1)
end
-- Redis removes a key only after its last millisecond has passed, so no slot is freed early.
call('PEXPIRE', key, ttl)
return reply(1, max - live - cost, 0, ttl)
