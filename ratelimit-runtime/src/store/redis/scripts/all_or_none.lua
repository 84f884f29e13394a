-- Several keys in one step, as stacked rules need it: all of them are charged, or none.
--
-- needs: common zset ring fixed_window sliding_counter token_bucket leaky_bucket

local kinds = {
  zset = zset,
  ring = ring,
  fixed_window = fixed_window,
  sliding_counter = sliding_counter,
  token_bucket = token_bucket,
  leaky_bucket = leaky_bucket,
}

local function decide(key, request, operation)
  local asked = request.operation
  request.operation = operation
  local verdict = kinds[request.kind](key, request)
  request.operation = asked
  return verdict
end

local requests, verdicts = {}, {}
local admitted = true
for i, key in ipairs(KEYS) do
  local request = next_request()
  if request.operation ~= 'acquire' and request.operation ~= 'reserve' then
    return unknown(request)
  end
  local verdict = decide(key, request, 'peek')
  if verdict.err then
    return verdict
  end
  requests[i], verdicts[i] = request, verdict
  admitted = admitted and verdict[1] == 1
end

for i, key in ipairs(KEYS) do
  -- Where one refuses, those that do may set their blocks, and no other is touched.
  if admitted or verdicts[i][1] == 0 then
    verdicts[i] = decide(key, requests[i], requests[i].operation)
  end
  if admitted and verdicts[i][1] == 0 then
    -- A key stands here twice, and there was room for one of them.
    for j = i - 1, 1, -1 do
      local request = requests[j]
      request.ticket = verdicts[j][6]
      if request.ticket > 0 then
        decide(KEYS[j], request, request.operation == 'reserve' and 'release' or 'refund')
      end
    end
    return verdicts
  end
end
return verdicts
