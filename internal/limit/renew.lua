-- Renews leases and ends others. KEYS: the leases, the store. ARGV: the store that the asker knows, or nothing; microseconds for
-- which a store that has forgotten is told before it decides; microseconds that leases last; the number of those to renew, these,
-- and those to end.
-- Returns which store this is, for how long it is still being told, and for each lease that is renewed whether it was alive.
local known, grace, lasts, n = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local store = redis.call('HMGET', KEYS[2], 'born', 'cold')
local born, cold = store[1], tonumber(store[2])
if not born then
  born = int(now)
  redis.call('HSET', KEYS[2], 'born', born)
end
if known ~= '' and known ~= born and not cold then
  cold = now + grace
  redis.call('HSET', KEYS[2], 'cold', int(cold))
end
local out = {tonumber(born), math.max(0, (cold or 0) - now)}
alive('')
for lease, lives in pairs(living) do
  if not lives then redis.call('HDEL', KEYS[1], lease) end
end
for i = 5, #ARGV do
  if i - 4 <= n then
    out[#out + 1] = alive(ARGV[i]) and 1 or 0
    redis.call('HSET', KEYS[1], ARGV[i], int(now + lasts))
  else
    redis.call('HDEL', KEYS[1], ARGV[i])
  end
end
redis.call('PEXPIRE', KEYS[1], int(math.ceil(lasts / 1000)))
return out
