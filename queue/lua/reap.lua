-- Takes over entries whose lease has run out.
-- KEYS: jobs, dead    ARGV: group, consumer, lease ms, how many, hopeless count, dead maxlen
-- A list: {entry, token, idle ms, former owner, fields} for each entry taken, and
-- {entry, 0, idle ms, former owner, reason} for each one that went to the dead letters here, -1 in
-- the place of 0 where it could not.
--
-- An entry that was trimmed or deleted while pending is a lost job: its row becomes a dead
-- letter, so that it is counted and not looked at for ever. One whose workers died so often
-- that even answering "crash loop" must be what kills them is put away without another look.
local function bury(entry, owner, count, reason, fields)
  local now = redis.call('TIME')
  local letter = { 'XADD', KEYS[2], 'MAXLEN', '~', ARGV[6], '*' }
  local own = { reason = reason, error = 'no worker could answer it', entry = entry,
    owner = owner, deliveries = tostring(count),
    dead_ms = string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000)) }
  for name, value in pairs(own) do
    letter[#letter + 1] = name
    letter[#letter + 1] = value
  end
  carry_over(letter, fields, own)
  redis.call(unpack(letter))
  take_off(entry)
end

local answers = {}

-- One row must not keep the others waiting, or undo what was done for them: a key of another type
-- in the place of the dead letters, say.
local function try_to_bury(entry, owner, count, idle, reason, fields)
  local done = pcall(bury, entry, owner, count, reason, fields)
  answers[#answers + 1] = { entry, done and 0 or -1, idle, owner, reason }
end

local function take(entry, owner, idle, count)
  local fields = fields_of(entry)
  if not fields then
    try_to_bury(entry, owner, count, idle, 'entry_missing', {})
  elseif count >= tonumber(ARGV[5]) then
    try_to_bury(entry, owner, count, idle, 'crash_loop', fields)
  else
    redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, entry, 'RETRYCOUNT', count + 1, 'JUSTID')
    answers[#answers + 1] = { entry, count + 1, idle, owner, fields }
    return 1
  end
  return 0
end

-- Page by page, since rows that cannot be buried stay where they are.
local most, taken, start = tonumber(ARGV[4]), 0, '-'
for _ = 1, 10 do
  local rows = redis.call('XPENDING', KEYS[1], ARGV[1], 'IDLE', ARGV[3], start, '+', most)
  for _, row in ipairs(rows) do
    if taken < most then taken = taken + take(row[1], row[2], row[3], row[4]) end
    start = '(' .. row[1]
  end
  if #rows < most or taken >= most then break end
end
return answers
