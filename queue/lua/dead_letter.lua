#!lua flags=allow-oom
-- Moves an entry that the caller holds to the dead letters, with its reply where there is one.
-- KEYS: jobs, dead, reply stream, outcome record
-- ARGV: group, consumer, entry, token, dead maxlen, reply maxlen, record ttl ms, job id, reply
--       (empty: none), then names and values of the letter's own fields
-- 1: moved. 2: moved before by this same delivery. 0: not ours any more.
--
-- Every field of the entry is carried over byte for byte; a field of the letter's own wins.
local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[3], ARGV[3], 1, ARGV[2])
local mark = 'd:' .. ARGV[2] .. ':' .. ARGV[3] .. ':' .. ARGV[4] .. ':'
if #pending ~= 1 or tostring(pending[1][4]) ~= ARGV[4] then
  local record = redis.call('GET', KEYS[4])
  if record and string.sub(record, 1, #mark) == mark then return 2 end
  return 0
end
-- unpack() takes fewer than 8,000 values. Past a thousand fields the rest goes, packed, into one.
local MOST_FIELDS = 1000
local function carry_over(letter, fields, own)
  local count, rest = 0, {}
  for i = 1, #fields, 2 do
    if not own[fields[i]] then
      local list = letter
      if count >= MOST_FIELDS and fields[i] ~= 'job' then list = rest end
      list[#list + 1] = fields[i]
      list[#list + 1] = fields[i + 1]
      count = count + 1
    end
  end
  if #rest > 0 then
    letter[#letter + 1] = 'more_fields'
    letter[#letter + 1] = cmsgpack.pack(rest)
  end
end

local letter = { 'XADD', KEYS[2], 'MAXLEN', '~', ARGV[5], '*' }
local own = {}
for i = 10, #ARGV, 2 do
  own[ARGV[i]] = true
  letter[#letter + 1] = ARGV[i]
  letter[#letter + 1] = ARGV[i + 1]
end
local found = redis.call('XRANGE', KEYS[1], ARGV[3], ARGV[3])
carry_over(letter, found[1] and found[1][2] or {}, own)
-- Of the two writes that a key of a foreign type can refuse, the second is tried out first: a
-- script does not roll back.
redis.call('XLEN', KEYS[2])
if ARGV[9] ~= '' then
  redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[6], '*',
    'id', ARGV[8], 'ok', '0', 'reply', ARGV[9])
end
redis.call(unpack(letter))
redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])
redis.call('XDEL', KEYS[1], ARGV[3])
if ARGV[8] ~= '' then
  redis.call('SET', KEYS[4], mark .. '0', 'PX', ARGV[7])
end
return 1
