-- Fixed windows of which some are calendar periods. Such a limit has in the place of its window a
-- table: `start`, when the period before this one begins; `past`, `this` and `next`, when these
-- periods end; and `longest`, how long a period of its unit can be. They are of the asking process:
-- a stored end that is ahead holds, whatever they say. Beside x and y each limit has z: when its
-- window was begun, before which nothing is given back.

local MISTIMED = 'CLOCK the time of the decision is %.0f, which is in no period of this call'

local function is_within(period, now)
  return period.start <= now and now < period.next
end

-- When the period ends that `now` is in.
local function end_of(period, now)
  if not is_within(period, now) then
    -- What is stored is ahead of the clock.
    error(failed(string.format(MISTIMED, now)))
  end
  return now < period.past and period.past or now < period.this and period.this or period.next
end

local calendar = {
  each = 3,
  at = function(x, y, z, max, window, now)
    local is_period = type(window) ~= 'number'
    if now >= y or x == 0 and (not is_period or y > window.next) then
      return 0, is_period and end_of(window, now) or now + window, now
    end
    return x, y, z
  end,
  status = fixed_window.status,
  charge = fixed_window.charge,
  refund = function(x, y, z, max, window, cost, ticket, now)
    return fixed_window.refund(x, y, z, max, y - z, cost, ticket, now)
  end,
  ends = function(x, y, z, max, window)
    if type(window) ~= 'number' and y > window.next then
      -- No process has stored it: as a number that cannot be, it is foreign.
      y = math.huge
    end
    return fixed_window.ends(x, y)
  end,
  begin = function(x, y, z, window)
    -- An end that holds needs no clock to stand still.
    return type(window) == 'number' and fixed_window.begin(x, y, z, window) or 0
  end,
  horizon = function(max, window, capacity)
    return type(window) == 'number' and window or window.longest
  end,
}

local decide = counters(calendar)

-- The number in a question at a place, if it is so long.
local function number_at(question, place)
  return #question >= place + 7 and parse('<d', question, place) or 0
end

return answering(function(key, request, question)
  local place = 32 + 32 * request.n
  for i = 1, request.n do
    if request.capacity[i] == 0 then
      local period = { longest = request.window[i] }
      period.start, period.past, period.this, period.next = parse('<dddd', question, place)
      if not is_within(period, now) then
        return failed(string.format(MISTIMED, now))
      end
      request.window[i] = period
      request.reach = math.max(request.reach or 0, period.next - now)
      place = place + 32
    end
  end
  -- They stand behind the instants.
  request.ticket, request.actual = number_at(question, place), number_at(question, place + 8)
  return decide(key, request)
end)
