-- Stores jobs whose ids are not known yet.
--
-- KEYS  1 queues, 2 wl:st, 3 wl:st:DAY, then whatever the groups name by its index.
-- ARGV  1 seconds for which ids are remembered, 2 seconds for places, 3 the total to count in ('' for none), then groups:
--         index of wl:ids:HOUR, index of wl:at:HOUR or 0, index of the target, arguments per job for it (1: list,
--         2: score and member of a sorted set), index of wl:keep or 0, name of the queue or '', number of jobs n;
--         n ids; n or 2n arguments for the target; 2n ids and places if wl:at; 2n scores and members if wl:keep.
-- Returns the numbers, from 0 in the order of the call, of the jobs whose ids were known: these are unchanged.
local known, accepted, job, i = {}, 0, 0, 4

local function store(ids, at, target, stride, keep, id, body, place, kept, n)
  redis.call('SADD', ids, unpack(ARGV, id, id + n - 1))
  redis.call(stride == 1 and 'LPUSH' or 'ZADD', target, unpack(ARGV, body, body + n * stride - 1))
  if at then redis.call('HSET', at, unpack(ARGV, place, place + 2 * n - 1)) end
  if keep then redis.call('ZADD', keep, unpack(ARGV, kept, kept + 2 * n - 1)) end
  accepted = accepted + n
end

while i <= #ARGV do
  local ids, at = KEYS[tonumber(ARGV[i])], KEYS[tonumber(ARGV[i + 1])]
  local target, stride = KEYS[tonumber(ARGV[i + 2])], tonumber(ARGV[i + 3])
  local keep, queue, n = KEYS[tonumber(ARGV[i + 4])], ARGV[i + 5], tonumber(ARGV[i + 6])
  local id = i + 7
  local body = id + n
  local place = body + n * stride
  local kept = place + (at and 2 * n or 0)
  local is_known, all_new = redis.call('SMISMEMBER', ids, unpack(ARGV, id, body - 1)), true
  for j = 1, n do
    if is_known[j] == 1 then
      all_new = false
      known[#known + 1] = job + j - 1
    end
  end
  if all_new then
    store(ids, at, target, stride, keep, id, body, place, kept, n)
  else
    for j = 0, n - 1 do
      if is_known[j + 1] == 0 then
        store(ids, at, target, stride, keep, id + j, body + j * stride, place + 2 * j, kept + 2 * j, 1)
      end
    end
  end
  redis.call('EXPIRE', ids, ARGV[1])
  if at then redis.call('EXPIRE', at, ARGV[2]) end
  if queue ~= '' then redis.call('SADD', KEYS[1], queue) end
  job = job + n
  i = kept + (keep and 2 * n or 0)
end

if accepted > 0 and ARGV[3] ~= '' then
  redis.call('HINCRBY', KEYS[2], ARGV[3], accepted)
  redis.call('HINCRBY', KEYS[3], ARGV[3], accepted)
end
return known
