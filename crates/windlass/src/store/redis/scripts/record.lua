-- Adds measurements of a member, and how many jobs are ready.
--
-- KEYS  1 wl:members, 2 wl:meters, 3 wl:meters:order, 4 wl:meters:sum, then for each span: wl:ms:SPAN:STEP, wl:dp:SPAN:STEP.
-- ARGV  1 the member, 2 the present in milliseconds, 3 since when a meter must have been seen to be kept, 4 the most
--       meters, 5 the meter of what is not told apart, 6 the number of spans, then the seconds for which each is kept,
--       then the number of queues, their names and how many jobs are ready in each,
--       then for each sample: the meter, the number of its counters, their names and what is added to each.
-- Returns 0 when it is no member, else 1.
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
local spans, i = tonumber(ARGV[6]), 7 + tonumber(ARGV[6])

-- Who has not been seen for a month makes room.
for _, meter in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '(' .. ARGV[3])) do
  redis.call('ZREM', KEYS[2], meter)
  redis.call('ZREM', KEYS[3], meter)
  local fields = { meter .. '\0p', meter .. '\0f', meter .. '\0ms', meter .. '\0sm' }
  for bucket = 0, 25 do
    fields[#fields + 1] = meter .. '\0r' .. bucket
    fields[#fields + 1] = meter .. '\0s' .. bucket
  end
  redis.call('HDEL', KEYS[4], unpack(fields))
end

for j = i + 1, i + 2 * tonumber(ARGV[i]), 2 do
  for span = 0, spans - 1 do
    local key = KEYS[6 + 2 * span]
    local most = redis.call('HGET', key, ARGV[j])
    if not most or tonumber(most) < tonumber(ARGV[j + 1]) then redis.call('HSET', key, ARGV[j], ARGV[j + 1]) end
  end
end
i = i + 1 + 2 * tonumber(ARGV[i])

while i <= #ARGV do
  local meter, last = ARGV[i], i + 1 + 2 * tonumber(ARGV[i + 1])
  if not redis.call('ZSCORE', KEYS[2], meter) and redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[4]) then
    meter = ARGV[5]
  end
  if redis.call('ZADD', KEYS[2], ARGV[2], meter) == 1 then
    redis.call('ZADD', KEYS[3], redis.call('HINCRBY', KEYS[4], '', 1), meter)
  end
  for j = i + 2, last, 2 do
    redis.call('HINCRBY', KEYS[4], meter .. '\0' .. ARGV[j], ARGV[j + 1])
    for span = 0, spans - 1 do
      redis.call('HINCRBY', KEYS[5 + 2 * span], meter .. '\0' .. ARGV[j], ARGV[j + 1])
    end
  end
  i = last + 1
end

for span = 0, spans - 1 do
  redis.call('EXPIRE', KEYS[5 + 2 * span], ARGV[7 + span])
  redis.call('EXPIRE', KEYS[6 + 2 * span], ARGV[7 + span])
end
return 1
