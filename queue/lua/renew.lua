-- Renews the lease of every entry that the caller still holds.
-- KEYS: jobs      ARGV: group, consumer, then entry and token, in pairs
-- One number for each pair: 1 renewed, 0 not ours any more.
--
-- A bare XCLAIM would take back what somebody else has claimed meanwhile: owner and delivery
-- count are looked at first. JUSTID resets the idle time and leaves the count alone.
local answers = {}
for i = 3, #ARGV, 2 do
  local held = 0
  if is_ours(ARGV[i], ARGV[i + 1]) then
    local claimed = redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'JUSTID')
    held = #claimed
  end
  answers[#answers + 1] = held
end
return answers
