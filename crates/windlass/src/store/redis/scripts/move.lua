-- Moves jobs: each from where it was, if it is still there, to where it belongs now.
--
-- KEYS  1 queues, 2 wl:st, 3 wl:st:DAY, 4 stat:processed, 5 stat:processed:DAY, 6 stat:failed, 7 stat:failed:DAY,
--       8 wl:keep, then whatever the moves name by its index.
-- ARGV  1 seconds for which ids are remembered, 2 seconds for places, 3 seconds for which a day is kept,
--       4 '1' if a job that was not there counts as fenced, then moves of 15 arguments:
--         1 source: h field of a hash, z member of a sorted set, l element of a list; 2 its index; 3 what it is there;
--         4 target: f front of a list, b its back, z sorted set, - nowhere; 5 its index; 6 score; 7 new element;
--         8, 9 score and member for wl:keep, or '';
--         10 id; 11 index of wl:ids:HOUR or 0; 12 index of wl:at:HOUR or 0; 13 place: '' none, - the job is gone;
--         14 what to count: letters p processed, f failed, d dead, c cancelled, r recovered, x expired;
--         15 the name of the queue that the job waits in now, or ''.
-- Returns for each move 1, or 0 when the job was not there: then nothing was changed.
local REMOVE = { h = 'HDEL', z = 'ZREM' }
local TOTALS = { d = 'dead', c = 'cancelled', r = 'recovered', x = 'expired' }
local answers, counted, refused = {}, {}, 0

local function remember(i)
  local ids, at, id, place = KEYS[tonumber(ARGV[i + 10])], KEYS[tonumber(ARGV[i + 11])], ARGV[i + 9], ARGV[i + 12]
  if ids and place == '-' then
    redis.call('SREM', ids, id)
  elseif ids then
    redis.call('SADD', ids, id)
    redis.call('EXPIRE', ids, ARGV[1])
  end
  if at and (place == '-' or place == '') then
    redis.call('HDEL', at, id)
  elseif at then
    redis.call('HSET', at, id, place)
    redis.call('EXPIRE', at, ARGV[2])
  end
end

local function put(i)
  local kind, key, element = ARGV[i + 3], KEYS[tonumber(ARGV[i + 4])], ARGV[i + 6]
  if kind == 'f' then
    redis.call('RPUSH', key, element)
  elseif kind == 'b' then
    redis.call('LPUSH', key, element)
  elseif kind == 'z' then
    redis.call('ZADD', key, ARGV[i + 5], element)
  end
  if ARGV[i + 7] ~= '' then redis.call('ZADD', KEYS[8], ARGV[i + 7], ARGV[i + 8]) end
  if ARGV[i + 14] ~= '' then redis.call('SADD', KEYS[1], ARGV[i + 14]) end
end

-- First it is looked for, then written to its new place, then taken from its old one: a write that is refused for want
-- of memory has then lost nothing.
for i = 5, #ARGV, 15 do
  local kind, key, is_there = ARGV[i], KEYS[tonumber(ARGV[i + 1])], 0
  if kind == 'h' then
    is_there = redis.call('HEXISTS', key, ARGV[i + 2])
  elseif kind == 'z' then
    is_there = redis.call('ZSCORE', key, ARGV[i + 2]) and 1 or 0
  else
    is_there = redis.call('LPOS', key, ARGV[i + 2], 'RANK', -1) and 1 or 0
  end
  answers[#answers + 1] = is_there
  if is_there == 1 then
    put(i)
    -- A member that only gets another score in its own set must stay.
    local is_same = kind == 'z' and ARGV[i + 1] == ARGV[i + 4] and ARGV[i + 2] == ARGV[i + 6]
    if kind == 'l' then
      redis.call('LREM', key, -1, ARGV[i + 2])
    elseif not is_same then
      redis.call(REMOVE[kind], key, ARGV[i + 2])
    end
    remember(i)
    for letter in string.gmatch(ARGV[i + 13], '.') do counted[letter] = (counted[letter] or 0) + 1 end
  else
    refused = refused + 1
  end
end

for letter, count in pairs(counted) do
  local first = letter == 'p' and 4 or letter == 'f' and 6
  if first then
    redis.call('INCRBY', KEYS[first], count)
    redis.call('INCRBY', KEYS[first + 1], count)
    redis.call('EXPIRE', KEYS[first + 1], ARGV[3])
  else
    redis.call('HINCRBY', KEYS[2], TOTALS[letter], count)
    redis.call('HINCRBY', KEYS[3], TOTALS[letter], count)
  end
end
if refused > 0 and ARGV[4] == '1' then
  redis.call('HINCRBY', KEYS[2], 'fenced', refused)
  redis.call('HINCRBY', KEYS[3], 'fenced', refused)
end
return answers
