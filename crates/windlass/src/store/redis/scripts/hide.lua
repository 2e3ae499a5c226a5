-- Shows processes no longer.
--
-- KEYS  1 processes, then for each member all that it showed: MEMBER, MEMBER-signals, MEMBER:workers, MEMBER:work.
-- ARGV  the members.
-- Returns how many of them were shown.
local shown = 0
for i = 1, #ARGV do
  shown = shown + redis.call('SREM', KEYS[1], ARGV[i])
end
for i = 2, #KEYS do redis.call('UNLINK', KEYS[i]) end
return shown
