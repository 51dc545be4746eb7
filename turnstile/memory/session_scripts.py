"""The working memory's Lua scripts (Redis 6.2 and later). Each is one call on the four keys of one session.

    heads      hash    field -> "<end> <version> <created> <updated> <priority> <labels>", times in milliseconds
    values     hash    field -> JSON text of value and metadata
    contexts   hash    name -> "<end> <time to live>"
    state      hash    the highest fence that has written, and the last version

A session has few and small heads, and each script reads all of them. They are the index by kind, context, tag, priority and
end; there is no second structure to keep in step. Each script first removes what has expired by the server's clock, and lets
all keys end with the last item or context. So nothing is left over, and nothing needs KEYS or SCAN. If the server has evicted the
heads or the values, the scripts drop the others, too. Of durable items, which are in Postgres, only their contexts are here.

Labels are each between two separators: "\\x1fkind:state\\x1ftag:name\\x1fcontext:letter\\x1f".
"""

_SESSION = """
local heads, values, contexts_key, state, channel = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local items, many, contexts, last = {}, 0, {}, now + 600000

local function digits(number) return string.format('%.0f', number) end

local function say(of, event, name, version)
    redis.call('PUBLISH', channel, cjson.encode({of = of, event = event, name = name, version = version}))
end

local function end_of(stored) return tonumber(string.match(stored, '^%d+')) end

local function parse(head)
    local version, created, updated, priority = string.match(head, '^%d+ (%d+) (%d+) (%d+) (%d+) ')
    return {version = tonumber(version), created = created, updated = tonumber(updated), priority = tonumber(priority)}
end

local function store(field, head, value)
    if not items[field] then many = many + 1 end
    items[field], last = head, math.max(last, end_of(head))
    redis.call('HSET', heads, field, head)
    redis.call('HSET', values, field, value)
end

local function forget(field, event)
    say('item', event, field, digits(parse(items[field]).version))
    items[field], many = nil, many - 1
    redis.call('HDEL', heads, field)
    redis.call('HDEL', values, field)
end

local function extend(name, lasts)
    if not contexts[name] then say('context', 'created', name) end
    contexts[name] = digits(now + lasts) .. ' ' .. digits(lasts)
    last = math.max(last, now + lasts)
    redis.call('HSET', contexts_key, name, contexts[name])
end

-- Extends a context. Opens it only if `lasts` is given.
local function touch(name, lasts)
    local known = contexts[name] and tonumber(string.match(contexts[name], '%d+$'))
    if known or lasts then extend(name, known or lasts) end
end

local function context_of(head) return string.match(head, '\\31context:([^\\31]*)\\31') end

local function superseded(fence)
    if tonumber(redis.call('HGET', state, 'fence') or '0') > tonumber(fence) then return true end
    redis.call('HSET', state, 'fence', fence)
    return false
end

local function keep()
    for _, key in ipairs(KEYS) do redis.call('PEXPIREAT', key, digits(last)) end
end

local function show(fields, first, final)
    local answer = {digits(now)}
    for place = first, final do
        local field = fields[place]
        local head = items[field]
        if head then
            for _, one in ipairs({field, head, redis.call('HGET', values, field)}) do answer[#answer + 1] = one end
            if context_of(head) then touch(context_of(head)) end
        end
    end
    keep()
    return answer
end

local stored = redis.call('HGETALL', heads)
for place = 1, #stored, 2 do
    items[stored[place]], many = stored[place + 1], many + 1
end
if many ~= redis.call('HLEN', values) then
    redis.call('UNLINK', heads, values)
    items, many = {}, 0
end
for field, head in pairs(items) do
    if end_of(head) > now then last = math.max(last, end_of(head)) else forget(field, 'expired') end
end
stored = redis.call('HGETALL', contexts_key)
for place = 1, #stored, 2 do
    local name, ends = stored[place], end_of(stored[place + 1])
    if ends > now then
        contexts[name], last = stored[place + 1], math.max(last, ends)
    else
        redis.call('HDEL', contexts_key, name)
        say('context', 'expired', name)
    end
end
"""

# ARGV: channel, field...
# Returns the time, then three values for each item that is there: field, head, value.
READ = _SESSION + "return show(ARGV, 2, #ARGV)"

# ARGV: channel, limit, lowest priority, label between separators...
# Returns the same as READ; the most important items first, among equals the latest write first.
FIND = (
    _SESSION
    + """
local found, parsed = {}, {}
for field, head in pairs(items) do
    local item = parse(head)
    local fits = item.priority >= tonumber(ARGV[3])
    for place = 4, #ARGV do fits = fits and string.find(head, ARGV[place], 1, true) end
    if fits then found[#found + 1], parsed[field] = field, item end
end
table.sort(found, function(a, b)
    local one, other = parsed[a], parsed[b]
    if one.priority ~= other.priority then return one.priority > other.priority end
    if one.updated ~= other.updated then return one.updated > other.updated end
    return a < b
end)
return show(found, 1, math.min(#found, tonumber(ARGV[2])))
"""
)

# ARGV: channel, fence, most items, priority up to which to shed, a new context's time to live, then for each write five values:
# field, expected version or "", time to live, priority and labels, value.
# Returns -1 if superseded; otherwise 0, then for each write its version, or 0 for a conflict, -1 for no room.
WRITE = (
    _SESSION
    + """
if superseded(ARGV[2]) then return {-1} end
local shed_up_to = tonumber(ARGV[4])
for field, head in pairs(shed_up_to > 0 and items or {}) do
    if parse(head).priority <= shed_up_to then forget(field, 'evicted') end
end
local answer, version = {0}, tonumber(redis.call('HGET', state, 'version') or '0')
for place = 6, #ARGV, 5 do
    local field, expected, lasts, rest, value = unpack(ARGV, place, place + 4)
    local item = items[field] and parse(items[field])
    local present = item and item.version or 0
    if expected ~= '' and tonumber(expected) ~= present then
        answer[#answer + 1] = 0
    elseif not item and many >= tonumber(ARGV[3]) then
        answer[#answer + 1] = -1
    else
        -- Above all that came before it, also before a flush: microseconds, and one more where the clock stands still.
        version = math.max(time[1] * 1000000 + time[2], version + 1, present + 1)
        local created = item and item.created or digits(now)
        store(field, table.concat({digits(now + lasts), digits(version), created, digits(now), rest}, ' '), value)
        if context_of(items[field]) then touch(context_of(items[field]), tonumber(ARGV[5])) end
        say('item', item and 'updated' or 'created', field, digits(version))
        answer[#answer + 1] = version
    end
end
redis.call('HSET', state, 'version', digits(version))
keep()
return answer
"""
)

# ARGV: channel, fence, then for each item its field and its expected version or "".
# Returns -1 if superseded; otherwise 0, then for each item 1 if it was there, 0 if not or if its version was another.
DELETE = (
    _SESSION
    + """
if superseded(ARGV[2]) then return {-1} end
local answer = {0}
for place = 3, #ARGV, 2 do
    local field, expected = ARGV[place], tonumber(ARGV[place + 1])
    local item = items[field] and parse(items[field])
    local gone = item and (not expected or expected == item.version)
    if gone then forget(field, 'deleted') end
    answer[#answer + 1] = gone and 1 or 0
end
keep()
return answer
"""
)

# Durable items that were read or changed in Postgres: extends their contexts, and publishes the changes.
# ARGV: channel, a new context's time to live or "" for a read, then for each item four values: its context or "", event or "",
# field, version.
FOLLOW = (
    _SESSION
    + """
for place = 3, #ARGV, 4 do
    local context, event, field, version = unpack(ARGV, place, place + 3)
    if context ~= '' then touch(context, tonumber(ARGV[2])) end
    if event ~= '' then say('item', event, field, version) end
end
keep()
"""
)

# ARGV: channel, fence, name, time to live. Returns -1 if superseded, otherwise 0.
OPEN_CONTEXT = (
    _SESSION
    + """
if superseded(ARGV[2]) then return {-1} end
if contexts[ARGV[3]] then say('context', 'updated', ARGV[3]) end
extend(ARGV[3], tonumber(ARGV[4]))
keep()
return {0}
"""
)

# ARGV: channel, fence, name. Returns -1 if superseded, otherwise 0.
END_CONTEXT = (
    _SESSION
    + """
if superseded(ARGV[2]) then return {-1} end
if redis.call('HDEL', contexts_key, ARGV[3]) == 1 then say('context', 'deleted', ARGV[3]) end
keep()
return {0}
"""
)

# ARGV: channel. Returns name, remaining time, name, remaining time ...
LIST_CONTEXTS = (
    _SESSION
    + """
local answer = {}
for name, context in pairs(contexts) do
    answer[#answer + 1] = name
    answer[#answer + 1] = digits(end_of(context) - now)
end
return answer
"""
)
