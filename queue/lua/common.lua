#!lua flags=allow-oom
-- What the scripts have in common; each is embedded behind this (cmake/embed.cmake). They begin
-- with KEYS[1] jobs, ARGV[1] group, ARGV[2] consumer.

-- The fence: owner and delivery count. XACK alone would let anybody's late finish win.
local function is_ours(entry, token)
  local pending = redis.call('XPENDING', KEYS[1], ARGV[1], entry, entry, 1, ARGV[2])
  return #pending == 1 and tostring(pending[1][4]) == token
end

local function take_off(entry)
  redis.call('XACK', KEYS[1], ARGV[1], entry)
  redis.call('XDEL', KEYS[1], entry)
end

local function fields_of(entry)
  local found = redis.call('XRANGE', KEYS[1], entry, entry)
  return found[1] and found[1][2]
end

-- How a delivery's end is noted in the outcome record; `ok` comes after it.
local function mark_of(entry, token)
  return 'd:' .. ARGV[2] .. ':' .. entry .. ':' .. token .. ':'
end

-- For a delivery that is not ours (any more): 2 where it is our own earlier end, whose answer was
-- lost, else 0.
local function end_before(record, mark)
  local noted = redis.call('GET', record)
  return noted and string.sub(noted, 1, #mark) == mark and 2 or 0
end

-- What an outcome record keeps behind its mark: operation, blank, ok, LF, value. '' for nothing.
local function kept_in(record)
  local noted = redis.pcall('GET', record)
  if type(noted) ~= 'string' or string.sub(noted, 1, 2) ~= 'd:' then return '' end
  local at = string.find(noted, '\n', 1, true)
  return at and string.sub(noted, at + 1) or ''
end

-- Notes a delivery's end. The first outcome of an operation stays, whatever later entries of the
-- job id come to: one that failed for a while must not make the operation happen again.
local function note_end(record, mark, ok, ttl, outcome)
  local kept = kept_in(record)
  local same = outcome == '' or
    string.match(kept, '^[a-z_]* ') == string.match(outcome, '^[a-z_]* ')
  if kept ~= '' and same then outcome = kept end
  if outcome ~= '' then outcome = '\n' .. outcome end
  redis.call('SET', record, mark .. ok .. outcome, 'PX', ttl)
end
