-- Ends runs that leave nothing behind: the claims go, and the ids of the jobs.
--
-- KEYS  1 wl:if:MEMBER, 2 stat:processed, 3 stat:processed:DAY, 4 stat:failed, 5 stat:failed:DAY, 6 wl:st,
--       7 wl:st:DAY, then wl:ids:HOUR as the jobs name them by their index.
-- ARGV  1 seconds for which a day is kept, then for each job: field of the ledger, index of wl:ids:HOUR or 0, id,
--       '1' if the run failed.
-- Returns for each job 1, or 0 when the claim was not, or no longer, there.
local answers, landed, failed, refused = {}, 0, 0, 0
local gone, n, key = {}, 0, nil

local function forget()
  if n > 0 then redis.call('SREM', key, unpack(gone, 1, n)) end
  n = 0
end

for i = 2, #ARGV, 4 do
  local answer = redis.call('HDEL', KEYS[1], ARGV[i])
  answers[#answers + 1] = answer
  if answer == 1 then
    landed = landed + 1
    if ARGV[i + 3] == '1' then failed = failed + 1 end
    local ids = KEYS[tonumber(ARGV[i + 1])]
    if ids then
      if ids ~= key or n == 500 then
        forget()
        key = ids
      end
      n = n + 1
      gone[n] = ARGV[i + 2]
    end
  else
    refused = refused + 1
  end
end
forget()

if landed > 0 then
  redis.call('INCRBY', KEYS[2], landed)
  redis.call('INCRBY', KEYS[3], landed)
  redis.call('EXPIRE', KEYS[3], ARGV[1])
end
if failed > 0 then
  redis.call('INCRBY', KEYS[4], failed)
  redis.call('INCRBY', KEYS[5], failed)
  redis.call('EXPIRE', KEYS[5], ARGV[1])
end
if refused > 0 then
  redis.call('HINCRBY', KEYS[6], 'fenced', refused)
  redis.call('HINCRBY', KEYS[7], 'fenced', refused)
end
return answers
