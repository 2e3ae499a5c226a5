-- Takes all rights from members in one step, however much they hold: their ledgers get other names.
--
-- KEYS  1 wl:members, 2 wl:lost, then for each member: wl:if:MEMBER, wl:ask:MEMBER, wl:lost:MEMBER, wl:lostask:MEMBER,
--       wl:orders:MEMBER.
-- ARGV  1 the present in milliseconds, 0 for the server's, 2 '1' if only those whose lease has run out,
--       3 milliseconds after which others may hand on what they held, then the members.
-- Returns the present, then for each member 1, or 0 when it is no member, or still one.
local now = tonumber(ARGV[1])
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local answers = { now }
for i = 4, #ARGV do
  local member, key, answer = ARGV[i], 3 + 5 * (i - 4), 0
  local lease_until = redis.call('ZSCORE', KEYS[1], member)
  if lease_until and (ARGV[2] ~= '1' or tonumber(lease_until) <= now) then
    redis.call('ZREM', KEYS[1], member)
    redis.call('ZADD', KEYS[2], now + ARGV[3], member)
    if redis.call('EXISTS', KEYS[key]) == 1 then redis.call('RENAME', KEYS[key], KEYS[key + 2]) end
    if redis.call('EXISTS', KEYS[key + 1]) == 1 then redis.call('RENAME', KEYS[key + 1], KEYS[key + 3]) end
    redis.call('DEL', KEYS[key + 4])
    answer = 1
  end
  answers[#answers + 1] = answer
end
return answers
