-- Adds what a minute's runs came to, to Sidekiq's metrics.
--
-- KEYS  1 the hash of the minute, 2 the hash of the ten minutes or the same again, then the histogram of each kind.
-- ARGV  1 seconds for which the minute is kept, 2 seconds for the ten minutes, 3 seconds for a histogram, then for each
--       kind: its name, runs, failed runs, milliseconds, number n of the buckets, n indices and counts.
-- Returns how many kinds there were.
local hashes = KEYS[1] == KEYS[2] and { KEYS[1] } or { KEYS[1], KEYS[2] }
local i, kinds = 4, 0
while i <= #ARGV do
  kinds = kinds + 1
  for _, hash in ipairs(hashes) do
    redis.call('HINCRBY', hash, ARGV[i] .. '|p', ARGV[i + 1])
    if ARGV[i + 2] ~= '0' then redis.call('HINCRBY', hash, ARGV[i] .. '|f', ARGV[i + 2]) end
    if ARGV[i + 3] ~= '0' then redis.call('HINCRBY', hash, ARGV[i] .. '|ms', ARGV[i + 3]) end
  end
  local histogram, buckets = KEYS[2 + kinds], tonumber(ARGV[i + 4])
  i = i + 5
  if buckets > 0 then
    local command = { 'BITFIELD', histogram, 'OVERFLOW', 'SAT' }
    for bucket = i, i + 2 * (buckets - 1), 2 do
      local n = #command
      command[n + 1], command[n + 2], command[n + 3], command[n + 4] = 'INCRBY', 'u16', '#' .. ARGV[bucket], ARGV[bucket + 1]
    end
    redis.call(unpack(command))
    redis.call('EXPIRE', histogram, ARGV[3])
  end
  i = i + 2 * buckets
end
redis.call('EXPIRE', KEYS[1], ARGV[1])
if #hashes == 2 then redis.call('EXPIRE', KEYS[2], ARGV[2]) end
return kinds
