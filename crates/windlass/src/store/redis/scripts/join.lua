-- Makes a process a member.
--
-- KEYS  1 wl:members, 2 wl:m:MEMBER, 3 wl:lost.
-- ARGV  1 the present in milliseconds, 0 for the server's, 2 the member, 3 its lease in milliseconds, 4 what it says.
-- Returns 1, or 0 when the identity is taken.
local now = tonumber(ARGV[1])
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
if redis.call('EXISTS', KEYS[2]) == 1 or redis.call('ZSCORE', KEYS[3], ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[2])
redis.call('HSET', KEYS[2], 'info', ARGV[4], 'lease', ARGV[3], 'joined', now, 'beat', now, 'vitals', '{}')
return 1
