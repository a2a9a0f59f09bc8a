-- Removes a consumer that holds nothing: looking and deleting are one step, since entries given
-- out in between would be lost for good.
-- KEYS: jobs    ARGV: group, consumer
-- 1: removed. 0: it still holds entries.
local pending = redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2])
if #pending > 0 then return 0 end
redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
return 1
