-- Takes jobs out of queues into a member's ledger. The ledger keeps each element as it was.
--
-- KEYS  1 wl:members, 2 wl:if:MEMBER, 3 paused, 4 wl:m:MEMBER, then for each queue: queue:NAME, wl:suspects:NAME.
-- ARGV  1 the member, 2 the block that begins the fields of this lease, 3 the most jobs in all, then takes:
--         index of the queue's key, its name, the most jobs of this take, the mark that its fields carry.
-- Returns 0 when it is no member; else {jobs of each take}, {elements}. The field of the i-th element, from 1, is the
--         block, the mark of its take, and i.
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
local block, left, counts, out = ARGV[2], tonumber(ARGV[3]), {}, {}

local function keep(elements, mark)
  local pairs, n = {}, 0
  for _, element in ipairs(elements) do
    local index = #out + 1
    out[index] = element
    pairs[n + 1], pairs[n + 2] = block .. mark .. index, element
    n = n + 2
    if n == 500 then
      redis.call('HSET', KEYS[2], unpack(pairs, 1, n))
      n = 0
    end
  end
  if n > 0 then redis.call('HSET', KEYS[2], unpack(pairs, 1, n)) end
end

-- A suspect has cost two members their life: one at a time.
local function take_suspect(key, mark)
  if redis.call('LLEN', key) == 0 then return 0 end
  local held = redis.call('HGET', KEYS[4], 'suspect')
  if held and redis.call('HEXISTS', KEYS[2], held) == 1 then return 0 end
  keep({ redis.call('RPOP', key) }, mark)
  redis.call('HSET', KEYS[4], 'suspect', block .. mark .. #out)
  return 1
end

for i = 4, #ARGV, 4 do
  local key, mark, taken = tonumber(ARGV[i]), ARGV[i + 3], 0
  local wanted = math.min(tonumber(ARGV[i + 2]), left)
  if wanted > 0 and redis.call('SISMEMBER', KEYS[3], ARGV[i + 1]) == 0 then
    taken = take_suspect(KEYS[key + 1], mark)
    if wanted > taken then
      local elements = redis.call('RPOP', KEYS[key], wanted - taken)
      if elements then
        taken = taken + #elements
        keep(elements, mark)
      end
    end
  end
  counts[#counts + 1] = taken
  left = left - taken
end
return { counts, out }
