-- Extends a lease, and tells the member what others want of it.
--
-- KEYS  1 wl:members, 2 wl:m:MEMBER, 3 wl:if:MEMBER, 4 wl:ask:MEMBER, 5 wl:orders:MEMBER.
-- ARGV  1 the present in milliseconds, 0 for the server's, 2 the member, 3 how it does.
-- Returns 0 when it is no member; else the present, {field, element of each run to cancel}, {orders}.
local now = tonumber(ARGV[1])
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
if not redis.call('ZSCORE', KEYS[1], ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now + redis.call('HGET', KEYS[2], 'lease'), ARGV[2])
redis.call('HSET', KEYS[2], 'beat', now, 'vitals', ARGV[3])
local asked = {}
for _, field in ipairs(redis.call('SMEMBERS', KEYS[4])) do
  local element = redis.call('HGET', KEYS[3], field)
  if element then
    asked[#asked + 1] = field
    asked[#asked + 1] = element
  else
    redis.call('SREM', KEYS[4], field)
  end
end
local orders = redis.call('SMEMBERS', KEYS[5])
if #orders > 0 then redis.call('DEL', KEYS[5]) end
return { now, asked, orders }
