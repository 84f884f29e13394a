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
-- Runs on Redis 6.2 and later. Numbers stay below 2^53, where Lua's doubles are exact.

local call = redis.call
local key = KEYS[1]
local acquire = ARGV[1] == 'acquire'
local max, cost, window = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local now
if ARGV[2] == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
else
  now = tonumber(ARGV[2])
end

local dead = now - window -- what happened then or earlier has expired
-- The key's life in milliseconds. Redis deletes at once what has expired by the time the expiry is stored, so that a
-- millisecond may be none: the shortest windows get more.
local ttl = math.max(math.ceil(window / 1000), 10)
local newest = call('ZRANGE', key, -1, -1)[1]
local logged, refused_by = 0, nil
if newest then
  newest = tonumber(newest)
  if not newest then
    return redis.error_reply('WRONGTYPE the key does not hold a rate limiter log')
  end
  if newest > dead then
    logged = call('ZCARD', key)
    -- The entries after this one leave just enough room, so the call fits exactly when this one has expired.
    local last = math.min(logged + cost - max, logged) - 1
    if last >= 0 then
      local entry = tonumber(call('ZRANGE', key, last, last)[1])
      if entry > dead then
        refused_by = entry
      end
    end
  else
    newest = nil
    if acquire then
      call('UNLINK', key)
    end
  end
end

local expired = 0
if logged > 0 and not (refused_by and cost == 1) then
  expired = call('ZCOUNT', key, '-inf', dead)
end
local remaining = max - logged + expired
local retry, left = 0, nil

if refused_by then
  retry = refused_by + window - now
  -- With a cost of 1 nothing remains; `max` may also be less than what is logged.
  if cost == 1 or remaining < 0 then
    remaining = 0
  end
elseif acquire then
  local first = now
  if newest and newest >= now then
    first = newest + 1
  end
  newest = first + cost - 1
  -- The insertion comes before the trimming, because only a script's first write is refused for lack of memory.
  -- Numbers become text by '%.0f': tostring() would round them to 14 digits.
  if cost == 1 then
    local entry = string.format('%.0f', first)
    call('ZADD', key, entry, entry)
  else
    for from = first, newest, 1000 do
      local entries = {}
      for at = from, math.min(from + 999, newest) do
        local entry = string.format('%.0f', at)
        entries[#entries + 1] = entry
        entries[#entries + 1] = entry
      end
      call('ZADD', key, unpack(entries))
    end
  end
  if expired > 0 then
    -- A bounded piece of work per call, yet never less than what was added.
    call('ZREMRANGEBYRANK', key, 0, math.min(expired, math.max(64, cost)) - 1)
  end
  -- Redis removes a key only after its last millisecond has passed, so no slot is freed early.
  call('PEXPIRE', key, ttl)
  remaining = remaining - cost
  left = ttl
end

local reset = 0
if newest then
  reset = newest + window - now
  if newest - now > logged + cost then
    -- More than uniqueness explains: the clock was set back. Entries then seem younger than they are; the key's own
    -- expiry bounds how long they count, and that must not exceed the window either.
    left = left or call('PTTL', key)
    if left > ttl or left < 0 then
      call('PEXPIRE', key, ttl)
      left = ttl
    end
    local gone = (left + 1) * 1000
    retry = math.min(retry, gone)
    reset = math.min(reset, gone)
  end
end

return { refused_by and 0 or 1, remaining, retry, reset }
