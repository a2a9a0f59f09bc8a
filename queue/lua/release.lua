-- Hands entries back that the caller holds and has not begun: each is added anew, so that a
-- reader that waits gets it at once.
-- KEYS: jobs    ARGV: group, consumer, then entry and token, in pairs
-- How many were handed back.
local released = 0
for i = 3, #ARGV, 2 do
  local entry = ARGV[i]
  local fields = fields_of(entry)
  -- unpack() takes fewer than 8,000 values: an entry with more fields stays pending, and its lease
  -- runs out.
  local fits = not fields or #fields < 7000
  if fits and is_ours(entry, ARGV[i + 1]) then
    if fields then
      local again = { 'XADD', KEYS[1], '*' }
      local has_origin, has_time = false, false
      for j = 1, #fields, 2 do
        local name = fields[j]
        has_origin = has_origin or name == 'origin'
        has_time = has_time or name == 'enqueued_ms'
        again[#again + 1] = name
        again[#again + 1] = fields[j + 1]
      end
      if not has_origin then
        again[#again + 1] = 'origin'
        again[#again + 1] = entry
      end
      if not has_time then
        again[#again + 1] = 'enqueued_ms'
        again[#again + 1] = string.match(entry, '^%d+')
      end
      redis.call(unpack(again))
    end
    take_off(entry)
    released = released + 1
  end
end
return released
