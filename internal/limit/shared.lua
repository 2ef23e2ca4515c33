-- What the scripts share. Times are microseconds of this server's clock. Numbers go back to Redis through int: Lua would write
-- large ones with an exponent.
local SLOTS = 128
local floor = math.floor
local time = redis.call('TIME')
local seconds = tonumber(time[1])
local now = seconds * 1000000 + tonumber(time[2])
local DAY = 24 * 60 * 60

local function int(n) return string.format('%.0f', n) end

-- period returns the number of the calendar day ('d') or month ('m'), as Window.period does.
local function period(kind)
  local days = floor(seconds / DAY)
  if kind == 'd' then return days end
  -- Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days
  local z = days + 719468
  local era = floor(z / 146097)
  local doe = z - era * 146097
  local yoe = floor((doe - floor(doe / 1460) + floor(doe / 36524) - floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + floor(yoe / 4) - floor(yoe / 100))
  local mp = floor((5 * doy + 2) / 153)
  local month = mp < 10 and mp + 3 or mp - 9
  return (yoe + era * 400 + (month <= 2 and 1 or 0)) * 12 + month - 1
end

-- rate reads a sliding window: a hash of slot to amount, with the sum (s), the first slot that may count (o) and the last that
-- is not empty (l). What does not count any more is dropped.
local function rate(key, window)
  local h = redis.call('HMGET', key, 's', 'o', 'l')
  local r = {used = tonumber(h[1]) or 0, last = tonumber(h[3])}
  r.width = window / SLOTS
  r.slot = math.max(floor(now / r.width), r.last or 0) -- the clock of a server may be set back
  r.oldest = r.slot - SLOTS
  if not r.last then return r end
  local oldest = tonumber(h[2])
  if r.last < r.oldest then
    redis.call('DEL', key)
    r.used, r.last = 0, nil
  elseif oldest < r.oldest then
    local old, drop = {}, {}
    for i = oldest, r.oldest - 1 do old[#old + 1] = int(i) end
    local amounts = redis.call('HMGET', key, unpack(old))
    for i, name in ipairs(old) do
      if amounts[i] then
        r.used = r.used - tonumber(amounts[i])
        drop[#drop + 1] = name
      end
    end
    if #drop > 0 then
      redis.call('HDEL', key, unpack(drop))
      redis.call('HSET', key, 's', int(r.used), 'o', int(r.oldest))
    end
  end
  return r
end

-- put adds to a slot that counts, and takes from it if the amount is negative, as far as there is something.
local function put(key, r, slot, amount)
  local left = redis.call('HINCRBY', key, int(slot), int(amount))
  if left <= 0 then
    redis.call('HDEL', key, int(slot))
    amount = amount - left
  end
  r.used = r.used + amount
  if r.used <= 0 then
    redis.call('DEL', key)
    r.last = nil
    return
  end
  r.last = math.max(slot, r.last or slot)
  redis.call('HSET', key, 's', int(r.used), 'o', int(r.oldest), 'l', int(r.last))
  redis.call('PEXPIRE', key, int(math.ceil(r.width * (SLOTS + 2) / 1000)))
end

-- frees returns the slot with whose end an amount has become free.
local function frees(key, r, amount)
  local h, slots = redis.call('HGETALL', key), {}
  for i = 1, #h, 2 do slots[h[i]] = tonumber(h[i + 1]) end
  for i = r.oldest, r.last or r.oldest do
    amount = amount - (slots[int(i)] or 0)
    if amount <= 0 then return i end
  end
  return 0
end

-- alive says whether the process that holds under a lease lives. KEYS[1] is lease to time of death.
local living
local function alive(lease)
  if not living then
    living = {}
    local h = redis.call('HGETALL', KEYS[1])
    for i = 1, #h, 2 do living[h[i]] = tonumber(h[i + 1]) > now end
  end
  return living[lease]
end

-- hold reads what is held (fields h:LEASE), and of a calendar window what is spent (s) in the period (p). The holds of the dead
-- are dropped.
local function hold(key, kind)
  local h, r, of = redis.call('HGETALL', key), {used = 0, spent = 0}, nil
  for i = 1, #h, 2 do
    local name, amount = h[i], tonumber(h[i + 1])
    if name == 's' then r.spent = amount
    elseif name == 'p' then of = amount
    elseif alive(string.sub(name, 3)) then r.used = r.used + amount
    else redis.call('HDEL', key, name) end
  end
  if kind ~= 'c' and (of or 0) < period(kind) then r.spent = 0 end
  r.used = r.used + r.spent
  return r
end

-- keep makes a counter outlast whatever it counts.
local function keep(key, kind)
  redis.call('EXPIRE', key, kind == 'm' and 62 * DAY or 2 * DAY)
end
