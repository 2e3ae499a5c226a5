-- Shows a process, how it does and what it runs; fetches the signals that were left for it.
--
-- KEYS  1 processes, 2 MEMBER, 3 MEMBER:work (or MEMBER:workers), 4 MEMBER-signals.
-- ARGV  1 seconds for which it is shown, 2 the member, 3 number n of the following arguments that are fields and values
--       of its record, then these, then fields and values of its work.
-- Returns the signals, the oldest first, at most 100 of them.
local work = 4 + ARGV[3]
redis.call('SADD', KEYS[1], ARGV[2])
redis.call('HSET', KEYS[2], unpack(ARGV, 4, work - 1))
redis.call('EXPIRE', KEYS[2], ARGV[1])
redis.call('UNLINK', KEYS[3])
for first = work, #ARGV, 500 do
  redis.call('HSET', KEYS[3], unpack(ARGV, first, math.min(first + 499, #ARGV)))
end
if #ARGV >= work then redis.call('EXPIRE', KEYS[3], ARGV[1]) end
return redis.call('RPOP', KEYS[4], 100) or {}
