#!lua flags=allow-oom
-- Writes a reply and takes the entry off the queue, if the caller still holds it.
-- KEYS: jobs, reply stream, outcome record
-- ARGV: group, consumer, entry, token, reply maxlen, record ttl ms, job id, ok (1/0), reply
-- 1: done. 2: done before by this same delivery (only the answer was lost). 0: not ours any more.
--
-- Owner and delivery count are the fence: XACK alone would let anybody's late finish win. The
-- reply comes before XACK, since a script does not roll back and the reply may be refused.
local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[3], ARGV[3], 1, ARGV[2])
local mark = 'd:' .. ARGV[2] .. ':' .. ARGV[3] .. ':' .. ARGV[4] .. ':'
if #pending ~= 1 or tostring(pending[1][4]) ~= ARGV[4] then
  local record = redis.call('GET', KEYS[3])
  if record and string.sub(record, 1, #mark) == mark then return 2 end
  return 0
end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[5], '*',
  'id', ARGV[7], 'ok', ARGV[8], 'reply', ARGV[9])
redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])
redis.call('XDEL', KEYS[1], ARGV[3])
redis.call('SET', KEYS[3], mark .. ARGV[8], 'PX', ARGV[6])
return 1
