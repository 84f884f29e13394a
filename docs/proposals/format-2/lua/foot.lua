if not is_many then
  if count == FAILED then
    return redis.error_reply(record)
  end
  return pack('<c0dI2c0', number, now, count, record)
end
return number .. pack('<d' .. string.rep('I2', answered), now, unpack(counts)) .. table.concat(records)
