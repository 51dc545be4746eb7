"""The places and tokens of all limits in Redis: one script for a batch of steps. Pure text.

    limit:{limits}:<limit>:<value>            a hash: what is used, the tokens and their time, a pause, who was called
    limit:{limits}:<limit>:<value>:places     the turns that run, each until its place expires
    limit:{limits}:<limit>:<value>:waiting    the sessions that wait for a place, the first refused first
    limit:{limits}:<limit>:<value>:slots      the sessions that have a token for a later time

All keys have one hash tag, so a batch is one call in a cluster, too: a turn takes all its places and tokens, or none.

- take: refused if one of its limits is paused, has too few places or too few tokens. For the places it joins the waiting ones,
  and nobody who comes later goes before them. Of the tokens it gets those of a later time, so that sessions begin in the order in
  which they came: the tokens go below zero. No claim takes twice.
- give_back: frees the places; `unused` gives the tokens back, too.
- keep: a place lasts for a lease more. `anew` takes it again if it is gone.
- pause: nothing begins until then.

After the steps, each limit that they named calls as many waiting sessions as it has free places. For a moment it keeps these
places for them, whoever else comes. Places of a dead worker expire, and the next step counts them no more. The hash counts the
places in use, so it must not outlive them: both get a new time to live together, once in a while.
"""

SLOT_SECONDS = 120
"""How far ahead a session gets tokens. Beyond that it must ask again."""
CALL_SECONDS = 1
"""How long a place is kept for a session that was called."""
TURN_SECONDS = 5
"""The assumed time of a turn, by which the line for places moves. A session is called earlier if a place comes free."""
MOST_CALLED = 20
"""How many sessions a limit calls in one batch."""

RUN_STEPS = f"""
local asked = cjson.decode(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- To the microsecond, so that sessions keep the order in which they came.
local arrival = time[1] * 1000000 + time[2]
local known, answers, called = {{}}, {{}}, {{}}

local function find(number)
    if known[number] then return known[number] end
    local key = KEYS[number]
    local has = redis.call('HMGET', key, 'used', 'tokens', 'at', 'paused', 'called', 'called_at', 'lasts')
    local one = {{
        key = key, places = key .. ':places', waiting = key .. ':waiting', slots = key .. ':slots', most = 0, full = 0,
        used = tonumber(has[1]) or 0, tokens = tonumber(has[2]), at = tonumber(has[3]), paused = tonumber(has[4]) or 0,
        called = tonumber(has[5]) or 0, called_at = tonumber(has[6]) or 0, lasts = tonumber(has[7]) or 0,
    }}
    if one.used ~= 0 then
        for _, member in ipairs(redis.call('ZRANGEBYSCORE', one.places, '-inf', now)) do
            redis.call('ZREM', one.places, member)
            one.used = one.used - tonumber(string.match(member, '^%d+'))
        end
    end
    if one.called_at < now - {CALL_SECONDS * 1000} then one.called = 0 end
    known[number] = one
    return one
end

local function line(one)
    if not one.line then one.line = redis.call('ZCARD', one.waiting) end
    return one.line
end

local function refill(one, want)
    if one.tokens and one.at then
        one.tokens = math.min(want.burst, one.tokens + (now - one.at) * want.rate / 1000)
    else
        one.tokens = want.burst
    end
    one.at = now
    one.full = (want.burst - one.tokens) * 1000 / want.rate
end

local function find_slot(one, session)
    if not one.promised then
        one.promised = redis.call('ZCARD', one.slots)
        if one.promised > 0 then redis.call('ZREMRANGEBYSCORE', one.slots, '-inf', now - {SLOT_SECONDS * 1000}) end
    end
    return one.promised > 0 and tonumber(redis.call('ZSCORE', one.slots, session) or nil) or nil
end

local function place(one, want)
    redis.call('ZADD', one.places, now + asked.lease, want.member)
    one.used, one.placed = one.used + want.places, true
end

local function wait_for(one, want, step)
    local wait, exact = math.max(0, one.paused - now), 0
    if want.places > 0 then
        one.most = want.most
        local ahead = 0
        if not step.since then
            ahead = one.called + (line(one) > 0 and redis.call('ZRANK', one.waiting, step.session) or one.line)
        end
        if one.used + ahead + want.places > want.most then
            one.line = line(one) + redis.call('ZADD', one.waiting, 'NX', step.since or arrival, step.session)
            redis.call('PEXPIRE', one.waiting, {10 * SLOT_SECONDS * 1000})
            local moves = one.line * {TURN_SECONDS * 1000} / want.most
            wait = math.max(wait, math.min(math.max(moves, {TURN_SECONDS * 1000}), {SLOT_SECONDS * 1000}))
        end
    end
    if want.tokens > 0 then
        refill(one, want)
        want.slot = find_slot(one, step.session)
        if not want.slot and one.tokens < want.tokens then
            local due = now + math.ceil((want.tokens - one.tokens) * 1000 / want.rate)
            if due - now > {SLOT_SECONDS * 1000} then
                wait = math.max(wait, {SLOT_SECONDS * 1000})
            else
                want.slot = due
                one.tokens = one.tokens - want.tokens
                one.promised = one.promised + redis.call('ZADD', one.slots, due, step.session)
                redis.call('PEXPIRE', one.slots, {3 * SLOT_SECONDS * 1000})
            end
        end
        if want.slot and want.slot - now > wait then wait, exact = want.slot - now, 1 end
    end
    return wait, exact
end

local steps = {{}}

function steps.take(step)
    local by, longest, exactly = 0, 0, 0
    for number, want in ipairs(step.wants) do
        local wait, exact = wait_for(find(want.key), want, step)
        if wait > longest then by, longest, exactly = number, wait, exact end
    end
    if by > 0 then return by, math.ceil(longest), exactly end
    for _, want in ipairs(step.wants) do
        local one = find(want.key)
        if want.places > 0 then
            place(one, want)
            if line(one) > 0 then one.line = one.line - redis.call('ZREM', one.waiting, step.session) end
            if step.since then one.called = math.max(0, one.called - 1) end
        end
        if want.slot then redis.call('ZREM', one.slots, step.session)
        elseif want.tokens > 0 then one.tokens = one.tokens - want.tokens end
    end
    return 0, 0, 0
end

function steps.give_back(step)
    for _, want in ipairs(step.wants) do
        local one = find(want.key)
        if want.places > 0 then
            one.most = want.most
            if redis.call('ZREM', one.places, want.member) == 1 then one.used = one.used - want.places end
        end
        if step.unused and want.tokens > 0 then
            refill(one, want)
            one.tokens = math.min(want.burst, one.tokens + want.tokens)
        end
    end
    return 0, 0, 0
end

function steps.keep(step)
    local gone = 0
    for _, want in ipairs(step.wants) do
        local one = find(want.key)
        if want.places > 0 then
            if redis.call('ZSCORE', one.places, want.member) then
                redis.call('ZADD', one.places, now + asked.lease, want.member)
            elseif step.anew then
                place(one, want)
            else
                gone = 1
            end
        end
    end
    return gone, 0, 0
end

function steps.pause(step)
    for _, want in ipairs(step.wants) do
        local one = find(want.key)
        one.paused = math.max(one.paused, now + step.pause)
    end
    return 0, 0, 0
end

for _, step in ipairs(asked.steps) do
    local by, wait, exact = steps[step.name](step)
    answers[#answers + 1] = by
    answers[#answers + 1] = wait
    answers[#answers + 1] = exact
end

for _, one in pairs(known) do
    local free = math.floor(one.most - one.used - one.called)
    if free > 0 and one.paused <= now and line(one) > 0 then
        local next = redis.call('ZPOPMIN', one.waiting, math.min(free, {MOST_CALLED}))
        for _, word in ipairs(next) do table.insert(called, word) end
        one.called, one.called_at = one.called + #next / 2, now
    end
    local lasts = now + math.max(2 * asked.lease, {5 * SLOT_SECONDS * 1000}, one.paused - now, one.full)
    local renews = one.lasts < lasts
    if renews then one.lasts = math.ceil(2 * lasts - now) end
    redis.call('HSET', one.key, 'used', math.max(0, one.used), 'paused', one.paused, 'called', one.called,
               'called_at', one.called_at, 'lasts', one.lasts, 'tokens', one.tokens or '', 'at', one.at or '')
    if renews then redis.call('PEXPIREAT', one.key, one.lasts) end
    if renews or one.placed then redis.call('PEXPIREAT', one.places, one.lasts) end
end
return {{answers, called}}
"""
