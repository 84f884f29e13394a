-- Places of calls in flight, in the place of an algorithm: a sorted set of permits, which
-- guide/reference/redis_format.md describes.
--
-- Its questions are as long as others up to `block`, of which `cost` is how many calls of a key may
-- be in flight, and `block` is 0. Behind that stand
--   lease      a double, in microseconds
--   permits    two bytes: how many. For each its length, a byte, and the member that it is. The
--              first is the permit that the question is about, which looking leaves alone; the
--              others leave before anything else, whatever comes of it
--
-- Operations: 1 enter, 3 look, 4 leave, 10 renew, which enters again if the lease has ended and a
-- place is free. Of a record, `remaining` is how many calls are in flight; `retry_after` is 1 if
-- this failed and nothing is known; the ticket of a place that is taken is 1, and 2 if it was taken
-- anew by renewing.

local PLACES = 15
local ENTER, LOOK, LEAVE, RENEW = 1, 3, 4, 10
local ENTERED, ENTERED_AGAIN = 1, 2
local SHORTEST_LEASE, LONGEST_LEASE = 5000, 3600000
local MOST_PUT_RIGHT = 64

local function whole(number)
  return string.format('%.0f', number)
end

-- What this call knows of a key: how many calls are in flight, and when the last lease ends.
local known = {}

-- How long the lease of a member is; nothing if this store did not write the member.
local function lease_of(member)
  local process, lease = string.match(member, '^(%x+)%.%d+%.(%d+)$')
  lease = tonumber(lease)
  if process and #process == 16 and lease >= SHORTEST_LEASE and lease <= LONGEST_LEASE then
    return lease * 1000
  end
end

local function leave(key, permit)
  local left = call('ZREM', key, permit)
  if left > 0 then
    known[key] = nil
  end
  return left
end

-- Puts right what a clock that went back or another program has left, drops leases that have ended,
-- and counts the others.
--
-- No lease that is whole ends after the last that is. So only the last need be looked at: it is cut
-- to the lease of its member, or taken out, until one is as it should be.
local function count(key)
  local state = known[key]
  if state then
    return state
  end
  state = { latest = 0, written = 0 }
  for _ = 0, MOST_PUT_RIGHT do
    local last = call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
    local member = last[1]
    if not member then
      break
    end
    local lease, latest = lease_of(member), tonumber(last[2])
    if not lease then
      call('ZREM', key, member)
    elseif latest > now + lease then
      call('ZADD', key, whole(now + lease), member)
    else
      state.latest = latest
      break
    end
  end
  local all, live = call('ZCARD', key), call('ZCOUNT', key, '(' .. whole(now), '+inf')
  if all > live then
    call('ZREMRANGEBYRANK', key, 0, math.min(all - live, MOST_PUT_RIGHT) - 1)
  end
  state.live = live
  known[key] = state
  return state
end

-- Gives a permit a lease from now on.
local function lease_to(key, state, permit, lease)
  local ends = now + lease
  call('ZADD', key, whole(ends), permit)
  state.latest = math.max(state.latest, ends)
  if state.written ~= state.latest then
    call(EXPIRE, key, math.floor((base + math.max(state.latest - now, shortest)) / 1000))
    state.written = state.latest
  end
end

local function decide_on_place(key, question)
  local operation, _, _, _, _, max, _, lease, permits, at = parse('<BBI2I2BdddI2', question)
  local permit
  for i = 1, permits do
    local member
    member, at = parse('Bc0', question, at)
    if i == 1 then
      permit = member
    else
      leave(key, member)
    end
  end
  if operation == LEAVE then
    return pack(RECORD, leave(key, permit) > 0 and 1 or 0, 0, 1, 0, 0, 0, 0)
  end
  if operation ~= ENTER and operation ~= LOOK and operation ~= RENEW then
    error('ERR no place of the rate limiter can do ' .. operation, 0)
  end
  local state, ticket = count(key), 0
  if operation == RENEW then
    local ends = tonumber(call('ZSCORE', key, permit) or 0)
    if ends > now then
      ticket = ENTERED
      lease_to(key, state, permit, lease)
      return pack(RECORD, 1, 0, 1, state.live, 0, 0, ticket)
    end
    ticket = ENTERED_AGAIN
  end
  local is_free = state.live < max
  if is_free and operation ~= LOOK then
    lease_to(key, state, permit, lease)
    state.live = state.live + 1
    ticket = math.max(ticket, ENTERED)
  end
  return pack(RECORD, is_free and 1 or 0, 0, 1, state.live, 0, 0, is_free and ticket or 0)
end

-- The record, or a table with `err`.
local function place(key, question)
  local done, record = pcall(decide_on_place, key, question)
  if done then
    return record
  end
  local failure = type(record) == 'table' and record.err or tostring(record)
  -- Up to Redis 6.2 an error is a text that begins with the place.
  return { err = string.find(failure, '^%u+ ') and failure or 'ERR ' .. failure }
end
