-- Writes a reply and takes the entry off the queue, if the caller still holds it.
-- KEYS: jobs, reply stream, outcome record
-- ARGV: group, consumer, entry, token, reply maxlen, record ttl ms, job id, ok (1/0), reply,
--       what later entries of this job id are told (operation, blank, ok; empty: nothing), value
-- 1: done. 2: done before by this same delivery (only the answer was lost). 0: not ours any more.
--
-- The reply comes before XACK, since a script does not roll back and the reply may be refused.
local mark = mark_of(ARGV[3], ARGV[4])
if not is_ours(ARGV[3], ARGV[4]) then return end_before(KEYS[3], mark) end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[5], '*',
  'id', ARGV[7], 'ok', ARGV[8], 'reply', ARGV[9])
take_off(ARGV[3])
local outcome = ARGV[10] ~= '' and ARGV[10] .. '\n' .. ARGV[11] or ''
note_end(KEYS[3], mark, ARGV[8], ARGV[6], outcome)
return 1
