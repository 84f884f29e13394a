-- Several keys together: all are charged, or none.

local kinds = {
  zset = zset,
  ring = ring,
  fixed_window = fixed_window,
  sliding_counter = sliding_counter,
  token_bucket = token_bucket,
  leaky_bucket = leaky_bucket,
}

local requests, verdicts = {}, {}
local admitted = true
for i, key in ipairs(KEYS) do
  local request = next_request()
  local mode = request.mode
  request.mode = 'peek'
  local verdict = kinds[request.kind](key, request)
  if verdict.err then
    return verdict
  end
  request.mode = mode
  requests[i], verdicts[i] = request, verdict
  admitted = admitted and verdict[1] == 1
end

for i, key in ipairs(KEYS) do
  -- Where one refuses, those that do may set their bans, and no other is touched.
  if admitted or verdicts[i][1] == 0 then
    verdicts[i] = kinds[requests[i].kind](key, requests[i])
  end
  if admitted and verdicts[i][1] == 0 then
    -- A key stands here twice, and there was room for one of them.
    for j = i - 1, 1, -1 do
      local request = requests[j]
      request.mode = request.mode == 'reserve' and 'release' or 'refund'
      request.ticket = verdicts[j][6]
      if request.ticket > 0 then
        kinds[request.kind](KEYS[j], request)
      end
    end
    return verdicts
  end
end
return verdicts
