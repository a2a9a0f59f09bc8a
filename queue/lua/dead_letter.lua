-- Moves an entry that the caller holds to the dead letters, with its reply where there is one.
-- KEYS: jobs, dead, reply stream, outcome record
-- ARGV: group, consumer, entry, token, dead maxlen, reply maxlen, record ttl ms, job id, reply
--       (empty: none), then names and values of the letter's own fields
-- 1: moved. 2: moved before by this same delivery. 0: not ours any more.
local mark = mark_of(ARGV[3], ARGV[4])
if not is_ours(ARGV[3], ARGV[4]) then return end_before(KEYS[4], mark) end
local letter = { 'XADD', KEYS[2], 'MAXLEN', '~', ARGV[5], '*' }
local own = {}
for i = 10, #ARGV, 2 do
  own[ARGV[i]] = true
  letter[#letter + 1] = ARGV[i]
  letter[#letter + 1] = ARGV[i + 1]
end
carry_over(letter, fields_of(ARGV[3]) or {}, own)
-- Of the two writes that a key of a foreign type can refuse, the second is tried out first: a
-- script does not roll back.
redis.call('XLEN', KEYS[2])
if ARGV[9] ~= '' then
  redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[6], '*',
    'id', ARGV[8], 'ok', '0', 'reply', ARGV[9])
end
redis.call(unpack(letter))
take_off(ARGV[3])
if ARGV[8] ~= '' then
  note_end(KEYS[4], mark, '0', ARGV[7], '')
end
return 1
