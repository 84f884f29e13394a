-- State: HEAD, TAIL, and where there is a block or strikes: until, given, strikes. Doubles.
local states, only
if #KEYS > 1 then
  states = try('MGET', unpack(KEYS))
else
  only = try('GET', KEYS[1])
end
for q = 2, #ARGV do
  local operation, _, calls, covers, limits, cost, block, longest, max, window, capacity, divisor = parse(QUESTION, ARGV[q])
  local is_acquire = operation == 1
  @SETUP
  local fresh, fresh_expiry, later, later_expiry, admits
  for i = answered + 1, answered + covers do
    count, record = FULL, ''
    repeat
      local state = only
      if states then
        state = states[i]
      end
      if state == nil or not is_quick then
        break
      end
      if not state then
        -- All keys that are new get the same bytes.
        if cost > capacity or not is_acquire then
          break
        end
        if not fresh then
          admits = calls
          if calls > 1 then
            admits = (capacity - capacity % cost) / cost
            admits = admits < calls and admits or calls
          end
          @FRESH
        end
        local reply = try('SET', KEYS[i], fresh, EXPIRY, fresh_expiry, 'NX')
        if reply and reply.ok then
          count, record = WHOLE + admits, fresh
        else
          count, record = FAILED, reply and reply.err or WRONGTYPE
        end
        break
      end
      local blocked_until, given, strikes
      if #state ~= @SIZE then
        if #state ~= @SIZE + 24 then
          break
        end
        blocked_until, given, strikes = parse('<ddd', state, @SIZE + 1)
        if blocked_until > now then
          if blocked_until - now <= given then
            count, record = STORED + #state, state
          end
          break
        end
      end
      @READ
      if @REFUSES or not is_acquire then
        if block == 0 or not is_acquire then
          count, record = STORED + #state, state
          break
        end
        -- An offence: twice as long as the last one, if that is still remembered.
        if not strikes or now >= blocked_until + longest then
          strikes = 0
        end
        given = block * 2 ^ strikes
        given = given < longest and given or longest
        blocked_until = now + given
        local kept = longest > block and blocked_until + longest or blocked_until
        @NEEDED
        kept = kept > needed and kept or needed
        record = string.sub(state, 1, @SIZE) .. pack('<ddd', blocked_until, given, strikes + 1)
        local reply = try('SET', KEYS[i], record, EXPIRY, EXPIRE(kept))
        if reply.ok then
          count = STORED + #record
        else
          count, record = FAILED, reply.err
        end
        break
      end
      local admitted = 1
      if calls > 1 then
        @FITS
        admitted = admitted < calls and admitted or calls
      end
      @CHARGE
      if @COVERED then
        local reply = try('SETRANGE', KEYS[i], '0', record)
        if reply == #state then
          count = admitted
        else
          count, record = FAILED, reply.err
        end
        break
      end
      -- The key is in use: the expiry is written for longer, so that the next writes need not.
      @LATER
      if strikes and now < blocked_until + longest and ends < blocked_until + longest then
        local kept = blocked_until + longest
        expiry = EXPIRE(kept)
      end
      local reply = try('SET', KEYS[i], record .. tail, EXPIRY, expiry)
      if reply.ok then
        count = admitted
      else
        count, record = FAILED, reply.err
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
