-- floor(a * b / m), and the rest. Exact for numbers below 2^53 as long as the quotient is.
local function mul_div(a, b, m)
  local product = a * b
  if product < 9007199254740992 then
    local rest = product % m
    return (product - rest) / m, rest
  end
  -- Bit by bit of `a`; neither sum nor difference ever leaves 2^53.
  local part = b % m
  local quotient, rest = a * ((b - part) / m), 0
  local low = 0
  local bit = 4503599627370496
  while bit >= 1 do
    low = low + low
    if rest >= m - rest then
      rest = rest - (m - rest)
      low = low + 1
    else
      rest = rest + rest
    end
    if a >= bit then
      a = a - bit
      if rest >= m - part then
        rest = rest - (m - part)
        low = low + 1
      else
        rest = rest + part
      end
    end
    bit = bit / 2
  end
  return quotient + low, rest
end

-- How long `tokens` and `rest` window-ths of one take at `max` per window, rounded up.
local function refill(tokens, rest, max, window)
  local time, over = mul_div(tokens, window, max)
  return time + math.ceil((over + rest) / max)
end
