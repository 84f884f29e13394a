-- Permits of calls in flight, in the place of an algorithm. The key is a sorted set with a member
-- for each permit, whose score is when its lease ends, in microseconds:
--   <16 hexadecimal digits of the process>.<number of the permit>.<lease in milliseconds>
--
-- Of a question, `max` is how many calls may be in flight, and `window` the lease of the permit
-- that asks. At `rest` stand two bytes, how many permits follow, and each with its length, a byte.
-- The first is the permit that is asked about; the others are released before anything else,
-- whatever comes of it.
--
-- acquire_permit   acquires the permit, if one is free
-- peek             says whether one is
-- release_permit   1 if it was held
-- renew            prolongs the lease; one that has ended is begun anew, if a permit is free
--
-- Of the answer, `remaining` is how many calls are in flight (0 of a release); the ticket is 1 of a
-- permit that is held, 2 if it was acquired anew by renewing.
local fmt = string.format
local permits, at = struct.unpack('<H', question, rest)
local permit, releases
permit, at = struct.unpack('Bc0', question, at)
if permits > 1 then
  releases = {}
  for i = 1, permits - 1 do
    releases[i], at = struct.unpack('Bc0', question, at)
  end
  call('ZREM', key, unpack(releases))
end
if operation == 'release_permit' then
  return struct.pack('<HBddddd', call('ZREM', key, permit), 0, 0, 0, 0, 0, 0)
end
if operation ~= 'acquire_permit' and operation ~= 'renew' and operation ~= 'peek' then
  error('unknown operation ' .. operation)
end

-- What a clock that was set back or another program has left stands last: a lease that ends further
-- off than it lasts is cut, a member that is no permit removed, at most 64 of them a call. Where
-- leases are equal, all before one that is whole are.
local latest, foreign = 0, 0
for _ = 1, 64 do
  local last = call('ZRANGE', key, '-1', '-1', 'WITHSCORES')
  local member, ends = last[1], tonumber(last[2])
  if not member then break end
  local process, lease = string.match(member, '^(%x+)%.%d+%.(%d+)$')
  lease = process and #process == 16 and lease * 1000
  if not lease or lease < 5000000 or lease > 3600000000 then
    call('ZREM', key, member)
    foreign = foreign + 1
  elseif ends > now + lease then
    latest = math.max(latest, now + lease)
    call('ZADD', key, fmt('%d', now + lease), member)
  else
    latest = math.max(latest, ends)
    break
  end
end

-- Permits may stand before them, of no longer leases than there are.
if foreign == 64 then latest = now + 3600000000 end

-- How many are in flight. A call drops at most 64 leases that have ended.
local live = 0
if latest > 0 then
  local lapsed = call('ZCARD', key)
  live = call('ZCOUNT', key, '(' .. fmt('%d', now), '+inf')
  lapsed = lapsed - live
  if lapsed > 0 then
    call('ZREMRANGEBYRANK', key, '0', fmt('%d', math.min(lapsed, 64) - 1))
  end
end

local ticket = operation == 'acquire_permit' and 1 or 0
local is_held = false
if operation == 'renew' then
  is_held = tonumber(call('ZSCORE', key, permit) or 0) > now
  ticket = is_held and 1 or 2
end
if not is_held and live >= max then
  return struct.pack('<HBddddd', 0, 0, live, 0, 0, 0, 0)
end
if operation ~= 'peek' then
  local ends = now + window
  call('ZADD', key, fmt('%d', ends), permit)
  call(base == 0 and 'PEXPIREAT' or 'PEXPIRE', key, fmt('%d', (math.max(latest, ends) - base) / 1000 + 1))
  if not is_held then live = live + 1 end
end
return struct.pack('<HBddddd', 1, 0, live, 0, 0, ticket, 0)
