-- Decides on a demand: all counters or none. KEYS: the leases, the store, then a counter each. ARGV: the store that the asker
-- knows; the asker's lease, or nothing where the demand holds nothing; "peek" to only look; then for each counter its kind
-- (microseconds of a sliding window, d, m or c), the amount, and the limit or nothing.
-- Returns 0 admitted, 1 refused, 2 the lease is not alive, 3 the store has forgotten; the time; then for each counter what is
-- used, the last slot or what is spent, and the slot that must end before the amount fits.
local known, lease, peek = ARGV[1], ARGV[2], ARGV[3] == 'peek'
local store = redis.call('HMGET', KEYS[2], 'born', 'cold')
if store[1] ~= known or (tonumber(store[2]) or 0) > now then return {3, now} end
if lease ~= '' and not alive(lease) then return {2, now} end
local out, counters = {0, now}, {}
for i = 1, #KEYS - 2 do
  local key, kind = KEYS[i + 2], ARGV[3 * i + 1]
  local amount, limit = tonumber(ARGV[3 * i + 2]), tonumber(ARGV[3 * i + 3])
  local window, c = tonumber(kind), nil
  if window then c = rate(key, window) else c = hold(key, kind) end
  local at = 0
  if limit and c.used + amount > limit and not peek then
    out[1] = 1
    if window and amount <= limit then at = frees(key, c, c.used + amount - limit) end
  end
  counters[i] = c
  out[3 * i], out[3 * i + 1], out[3 * i + 2] = c.used, c.last or c.spent or 0, at
end
if out[1] ~= 0 or peek then return out end
for i, c in ipairs(counters) do
  local key, kind, amount = KEYS[i + 2], ARGV[3 * i + 1], tonumber(ARGV[3 * i + 2])
  if c.slot then
    if amount > 0 then put(key, c, c.slot, amount) end
    out[3 * i], out[3 * i + 1], out[3 * i + 2] = c.used, c.last or 0, c.slot
  elseif amount > 0 then
    redis.call('HINCRBY', key, 'h:' .. lease, int(amount))
    keep(key, kind)
    out[3 * i] = c.used + amount
  end
end
return out
