-- Leaves word for members: runs to cancel, or orders to the process.
--
-- KEYS  1 wl:members, then for each word: wl:if:MEMBER, and the set the word goes into.
-- ARGV  for each word: the member, the field of the run or '', the word.
-- Returns for each word 1, or 0 when there is no such member, or no such run in its ledger.
local answers = {}
for i = 1, #ARGV, 3 do
  local key, answer = 2 + 2 * (i - 1) / 3, 0
  local is_run = ARGV[i + 1] ~= ''
  if redis.call('ZSCORE', KEYS[1], ARGV[i]) and (not is_run or redis.call('HEXISTS', KEYS[key], ARGV[i + 1]) == 1) then
    redis.call('SADD', KEYS[key + 1], ARGV[i + 2])
    answer = 1
  end
  answers[#answers + 1] = answer
end
return answers
