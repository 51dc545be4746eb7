"""The Lua scripts about items: read, find, write, delete, and load what is durable. ARGV and result stand above each."""

from turnstile.memory.session_script import PRELUDE

# ARGV: channel, field...
# Returns the session's version here, then seven values for each item that is there.
READ = (
    PRELUDE
    + """
tidy()
local answer = {redis.call('HGET', items, '') or '0'}
for place = 2, #ARGV do
    if lives(ARGV[place]) then show(answer, ARGV[place]) end
end
if #answer > 1 then keep() end
return answer
"""
)

# ARGV: channel, limit, lowest priority, label...
# Returns the same as READ; the most important items first, among equals the latest write first.
FIND = (
    PRELUDE
    + """
tidy()
local found = {}
for _, entry in ipairs(bearing('priority:' .. ARGV[3], 'priority:99')) do
    local field, fits = field_of(entry), true
    for place = 4, #ARGV do fits = fits and bears(ARGV[place], field) end
    if fits then
        found[#found + 1] = {field = field, priority = string.sub(entry, 10, 11), updated = tonumber(read(field).updated)}
    end
end
table.sort(found, function(a, b)
    if a.priority ~= b.priority then return a.priority > b.priority end
    if a.updated ~= b.updated then return a.updated > b.updated end
    return a.field < b.field
end)
local answer = {redis.call('HGET', items, '') or '0'}
for place = 1, math.min(#found, tonumber(ARGV[2])) do show(answer, found[place].field) end
if #answer > 1 then keep() end
return answer
"""
)

# ARGV: channel, fence, most items, priority up to which to shed, session's version before and after ("" if nothing is durable),
# then eight values for each write: field, expected version or "", given version or "", created, time to live, labels, value,
# context's time to live or "".
# Returns -1 if superseded; else the number of items shed, then for each write its version, or 0 for a conflict, -1 for no room.
WRITE = (
    PRELUDE
    + """
if superseded(tonumber(ARGV[2])) then return {'-1'} end
tidy()
local shed, most, up_to = 0, tonumber(ARGV[3]), tonumber(ARGV[4])
if up_to > 0 then
    for _, entry in ipairs(bearing('priority:00', string.format('priority:%02d', up_to))) do
        local field = field_of(entry)
        if not bears('durable:yes', field) then
            local item = forget(field)
            say('item', 'evicted', field, string.format('%.0f', item.version))
            shed = shed + 1
        end
    end
end
local answer = {tostring(shed)}
for place = 7, #ARGV, 8 do
    local field, expected, given, created, lasts, labels, value, context_lasts = unpack(ARGV, place, place + 7)
    local item = read(field)
    local present, version = item and item.version or 0, tonumber(given)
    if not version then
        created = item and item.created or string.format('%.0f', now)
        -- Above all that came before it, also before a flush: microseconds, and one more where the clock stands still.
        local last = tonumber(redis.call('HGET', state, 'version') or '0')
        version = math.max(time[1] * 1000000 + time[2], last + 1, present + 1)
    end
    if given == '' and expected ~= '' and tonumber(expected) ~= present then
        answer[#answer + 1] = '0'
    elseif given == '' and not item and redis.call('ZCARD', expiry) >= most then
        answer[#answer + 1] = '-1'
    elseif version <= present then
        answer[#answer + 1] = string.format('%.0f', version)
    else
        forget(field)
        local written = string.format('%.0f', version)
        redis.call('HSET', items, field, written .. ' ' .. created .. ' ' .. string.format('%.0f', now) .. ' ' .. labels)
        redis.call('HSET', values, field, value)
        redis.call('ZADD', expiry, now + lasts, field)
        for label in string.gmatch(labels, '[^\\31]+') do redis.call('ZADD', index, 0, label .. '\\31' .. field) end
        if given == '' then redis.call('HSET', state, 'version', written) end
        local context = string.match('\\31' .. labels .. '\\31', '\\31context:([^\\31]*)\\31')
        if context then
            local milliseconds = context_time(context) or tonumber(context_lasts)
            redis.call('HSET', state, 'context:' .. context, milliseconds)
            extend(context, milliseconds)
        end
        say('item', item and 'updated' or 'created', field, written)
        answer[#answer + 1] = written
    end
end
if ARGV[6] ~= '' then whole_from(tonumber(ARGV[5]), tonumber(ARGV[6])) end
keep()
return answer
"""
)

# ARGV: channel, fence, session's version before and after ("" if nothing is durable), then for each item its field, its expected
# version or "", and its version as a deleted one or "".
# Returns -1 if superseded; else 0, then for each item 1 if it was there, 0 if not or if its version was another.
DELETE = (
    PRELUDE
    + """
if superseded(tonumber(ARGV[2])) then return {-1} end
tidy()
local answer = {0}
for place = 5, #ARGV, 3 do
    local field, expected, given = ARGV[place], tonumber(ARGV[place + 1]), tonumber(ARGV[place + 2])
    local item = read(field)
    local gone = item and (given and item.version < given or not given and (not expected or expected == item.version))
    if gone then
        forget(field)
        say('item', 'deleted', field, string.format('%.0f', item.version))
    end
    answer[#answer + 1] = gone and 1 or 0
end
if ARGV[4] ~= '' then whole_from(tonumber(ARGV[3]), tonumber(ARGV[4])) end
keep()
return answer
"""
)

# ARGV: channel, session's version, then seven values for each durable item: field, version, created, updated, remaining time,
# labels, value. These replace all durable items here, also newer ones: either this load is late, and the next read loads again,
# or the newer ones are from before a restore of the database.
LOAD = (
    PRELUDE
    + """
tidy()
local version = tonumber(ARGV[2])
if tonumber(redis.call('HGET', items, '') or '-1') == version then return 0 end
local given = {}
for place = 3, #ARGV, 7 do given[ARGV[place]] = true end
for _, entry in ipairs(bearing('durable:yes', 'durable:yes')) do
    local field = field_of(entry)
    if not given[field] then forget(field) end
end
for place = 3, #ARGV, 7 do
    local field, written, created, updated, lasts, labels, value = unpack(ARGV, place, place + 6)
    local item = read(field)
    if not item or item.version ~= tonumber(written) then
        forget(field)
        redis.call('HSET', items, field, written .. ' ' .. created .. ' ' .. updated .. ' ' .. labels)
        redis.call('HSET', values, field, value)
        redis.call('ZADD', expiry, now + lasts, field)
        for label in string.gmatch(labels, '[^\\31]+') do redis.call('ZADD', index, 0, label .. '\\31' .. field) end
    end
end
redis.call('HSET', items, '', ARGV[2])
keep()
return 1
"""
)
