#!lua flags=allow-oom
-- Takes over entries whose lease has run out.
-- KEYS: jobs, dead    ARGV: group, consumer, lease ms, how many, hopeless count, dead maxlen
-- A list: {entry, token, idle ms, former owner, fields} for each entry taken, and
-- {entry, 0, idle ms, former owner, reason} for each one that went to the dead letters here, -1 in
-- the place of 0 where it could not.
--
-- An entry that was trimmed or deleted while pending is a lost job: its row becomes a dead
-- letter, so that it is counted and not looked at for ever. One whose workers died so often
-- that even answering "crash loop" must be what kills them is put away without another look.
local function fields_of(entry)
  local found = redis.call('XRANGE', KEYS[1], entry, entry)
  return found[1] and found[1][2]
end

local function bury(entry, owner, count, reason, fields)
  local now = redis.call('TIME')
  local letter = { 'XADD', KEYS[2], 'MAXLEN', '~', ARGV[6], '*' }
  local known = { reason = reason, error = 'no worker could answer it', entry = entry,
    owner = owner, deliveries = tostring(count),
    dead_ms = string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000)) }
  for i = 1, #fields, 2 do
    if not known[fields[i]] then
      letter[#letter + 1] = fields[i]
      letter[#letter + 1] = fields[i + 1]
    end
  end
  for name, value in pairs(known) do
    letter[#letter + 1] = name
    letter[#letter + 1] = value
  end
  -- A key of another type in the place of the dead letters must not keep the others waiting.
  if redis.pcall(unpack(letter)).err then return -1 end
  redis.call('XACK', KEYS[1], ARGV[1], entry)
  redis.call('XDEL', KEYS[1], entry)
  return 0
end

local answers = {}
local rows = redis.call('XPENDING', KEYS[1], ARGV[1], 'IDLE', ARGV[3], '-', '+', ARGV[4])
for _, row in ipairs(rows) do
  local entry, owner, idle, count = row[1], row[2], row[3], row[4]
  local fields = fields_of(entry)
  if not fields then
    local token = bury(entry, owner, count, 'entry_missing', {})
    answers[#answers + 1] = { entry, token, idle, owner, 'entry_missing' }
  elseif count >= tonumber(ARGV[5]) then
    local token = bury(entry, owner, count, 'crash_loop', fields)
    answers[#answers + 1] = { entry, token, idle, owner, 'crash_loop' }
  else
    redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, entry, 'RETRYCOUNT', count + 1, 'JUSTID')
    answers[#answers + 1] = { entry, count + 1, idle, owner, fields }
  end
end
return answers
