-- Adds an entry to the progress of a job and lets the stream live a little longer: one step, so that
-- none is left without an end. Unlike the other scripts it is refused when memory is short: nobody
-- depends on it.
-- KEYS: progress stream    ARGV: maxlen, life ms, then names and values
redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', unpack(ARGV, 3))
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
