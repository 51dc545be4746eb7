"""The Lua scripts about contexts (H3): open, end, list."""

from turnstile.memory.session_script import PRELUDE

# ARGV: channel, fence, name, milliseconds. Returns -1 if superseded, else 1.
OPEN_CONTEXT = (
    PRELUDE
    + """
if superseded(tonumber(ARGV[2])) then return -1 end
tidy()
redis.call('HSET', state, 'context:' .. ARGV[3], ARGV[4])
if redis.call('ZSCORE', contexts, ARGV[3]) then say('context', 'updated', ARGV[3]) end
extend(ARGV[3], tonumber(ARGV[4]))
keep()
return 1
"""
)

# ARGV: channel, fence, name. Returns -1 if superseded, else whether there was such a context.
END_CONTEXT = (
    PRELUDE
    + """
if superseded(tonumber(ARGV[2])) then return -1 end
tidy()
local ended = redis.call('ZREM', contexts, ARGV[3])
redis.call('HDEL', state, 'context:' .. ARGV[3])
if ended == 1 then say('context', 'deleted', ARGV[3]) end
return ended
"""
)

# ARGV: channel. Returns name, remaining time, name, remaining time ...
LIST_CONTEXTS = (
    PRELUDE
    + """
tidy()
local answer = {}
local active = redis.call('ZRANGE', contexts, 0, -1, 'WITHSCORES')
for place = 1, #active, 2 do
    answer[#answer + 1] = active[place]
    answer[#answer + 1] = string.format('%.0f', active[place + 1] - now)
end
return answer
"""
)
