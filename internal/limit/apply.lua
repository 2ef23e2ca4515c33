-- Applies what is owed, once. KEYS: the leases, the store, the number of the asker's last batch, then a counter for each entry.
-- ARGV: the store that the asker knows; the number of this batch, or nothing where it does not matter whether it is applied
-- again; then for each entry its kind and two more:
--   microseconds of a sliding window: slot, amount (negative: given back)
--   the same after "?": slot, amount, of a counter that is not there yet
--   d, m: period, amount spent
--   ^d, ^m: period, what is spent at least
--   +: lease, change of what it holds
--   =: lease, what it holds
-- Returns 3 where the store has forgotten, otherwise 0.
if redis.call('HGET', KEYS[2], 'born') ~= ARGV[1] then return {3} end
local batch = tonumber(ARGV[2])
if batch then
  if batch <= (tonumber(redis.call('GET', KEYS[3])) or 0) then return {0} end
  redis.call('SET', KEYS[3], ARGV[2], 'EX', 7 * DAY)
end

local function spend(key, kind, of, amount, least)
  local current = period(kind)
  if of ~= current then return end
  local h = redis.call('HMGET', key, 'p', 's')
  local spent = (tonumber(h[1]) or 0) >= current and tonumber(h[2]) or 0
  spent = least and math.max(spent, amount) or spent + amount
  redis.call('HSET', key, 'p', int(current), 's', int(spent))
  keep(key, kind)
end

local fresh = {}
for i = 1, #KEYS - 3 do
  local key, kind, at, amount = KEYS[i + 3], ARGV[3 * i], ARGV[3 * i + 1], tonumber(ARGV[3 * i + 2])
  local window = tonumber(kind)
  if string.sub(kind, 1, 1) == '?' then
    if fresh[key] == nil then fresh[key] = redis.call('EXISTS', key) == 0 end
    if fresh[key] then window = tonumber(string.sub(kind, 2)) end
  end
  if window then
    local r = rate(key, window)
    local slot = math.min(tonumber(at), r.slot)
    if slot >= r.oldest then put(key, r, slot, amount) end
  elseif kind == '+' or kind == '=' then
    local name = 'h:' .. at
    local held = amount
    if kind == '+' then held = held + (tonumber(redis.call('HGET', key, name)) or 0) end
    if held > 0 then
      redis.call('HSET', key, name, int(held))
      if redis.call('TTL', key) < 0 then keep(key, 'm') end
    else
      redis.call('HDEL', key, name)
    end
  elseif string.sub(kind, 1, 1) ~= '?' then
    spend(key, string.sub(kind, -1), tonumber(at), amount, #kind > 1)
  end
end
return {0}
