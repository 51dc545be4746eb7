"""The common part of the working memory's Lua scripts (Redis 6.2 and later). Each script uses the six keys of one session.

    items      hash    field -> "<version> <created> <updated> <label>\\x1f<label>..."; field "" -> the version of the
                       session as of which its durable items are all here
    values     hash    field -> JSON text of value and metadata
    expiry     zset    field by the millisecond at which the item ends
    index      zset    "<label>\\x1f<field>", all with score 0, for ranges by letter (H2)
    contexts   zset    name by the millisecond at which the context ends (H3)
    state      hash    fence, version, and each context's own time to live

A session has few and small items, so its keys are treated as one. One script writes or removes an item together with its index
entries, and all expire by the server's clock. The next script removes what has expired, and all six keys end with the last of
their items. So nothing is left over, and nothing needs KEYS or SCAN. If the server has evicted one of the keys, the scripts drop
the remaining items, too, and durable items are read from Postgres again.
"""

PRELUDE = """
local items, values, expiry, index, contexts, state = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local channel, time = ARGV[1], redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function say(of, event, name, version)
    redis.call('PUBLISH', channel, cjson.encode({of = of, event = event, name = name, version = version}))
end

local function read(field)
    local head = redis.call('HGET', items, field)
    if not head then return nil end
    local version, created, updated, labels = string.match(head, '^(%d+) (%d+) (%d+) (.*)$')
    return {version = tonumber(version), created = created, updated = updated, labels = labels}
end

local function forget(field)
    local item = read(field)
    if item then
        for label in string.gmatch(item.labels, '[^\\31]+') do redis.call('ZREM', index, label .. '\\31' .. field) end
    end
    redis.call('HDEL', items, field)
    redis.call('HDEL', values, field)
    redis.call('ZREM', expiry, field)
    return item
end

local function bearing(low, high)
    return redis.call('ZRANGEBYLEX', index, '[' .. low .. '\\31', '(' .. high .. '\\32')
end

local function field_of(entry) return string.match(entry, '^[^\\31]*\\31(.*)$') end

local function bears(label, field) return redis.call('ZSCORE', index, label .. '\\31' .. field) end

local function lives(field)
    local ends = redis.call('ZSCORE', expiry, field)
    return ends and tonumber(ends) > now
end

local function context_time(name)
    return tonumber(redis.call('HGET', state, 'context:' .. name))
end

local function extend(name, milliseconds)
    if not redis.call('ZSCORE', contexts, name) then say('context', 'created', name) end
    redis.call('ZADD', contexts, 'GT', now + milliseconds, name)
end

local function tidy()
    local many = redis.call('HLEN', items) - redis.call('HEXISTS', items, '')
    if many ~= redis.call('ZCARD', expiry) or many ~= redis.call('HLEN', values) or redis.call('ZCARD', index) < 2 * many then
        redis.call('UNLINK', items, values, expiry, index)
    end
    for _, field in ipairs(redis.call('ZRANGEBYSCORE', expiry, '-inf', now)) do
        local item = forget(field)
        say('item', 'expired', field, item and string.format('%.0f', item.version))
    end
    for _, name in ipairs(redis.call('ZRANGEBYSCORE', contexts, '-inf', now)) do
        redis.call('ZREM', contexts, name)
        redis.call('HDEL', state, 'context:' .. name)
        say('context', 'expired', name)
    end
end

local function keep()
    local last = now + 600000
    for _, key in ipairs({expiry, contexts}) do
        local far = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]
        if far and tonumber(far) > last then last = tonumber(far) end
    end
    for place = 1, #KEYS do redis.call('PEXPIREAT', KEYS[place], string.format('%.0f', last)) end
end

local function superseded(fence)
    local known = tonumber(redis.call('HGET', state, 'fence') or '0')
    if known > fence then return true end
    redis.call('HSET', state, 'fence', fence)
    return false
end

local function whole_from(before, after)
    -- At 0 the session has none yet, which needs no mark. -1 is no session's version: what is here is in doubt.
    local loaded = tonumber(redis.call('HGET', items, '') or '0')
    if loaded == after then return end
    redis.call('HSET', items, '', loaded == before and string.format('%.0f', after) or '-1')
end

local function show(answer, field)
    local item = read(field)
    answer[#answer + 1] = field
    answer[#answer + 1] = string.format('%.0f', item.version)
    answer[#answer + 1] = item.created
    answer[#answer + 1] = item.updated
    answer[#answer + 1] = item.labels
    answer[#answer + 1] = string.format('%.0f', redis.call('ZSCORE', expiry, field) - now)
    answer[#answer + 1] = redis.call('HGET', values, field)
    local context = string.match('\\31' .. item.labels .. '\\31', '\\31context:([^\\31]*)\\31')
    local milliseconds = context and context_time(context)
    if milliseconds then extend(context, milliseconds) end
end
"""
