"""What an operator's look at the streams finds."""

from uuid import uuid4

import redis.asyncio

from turnstile.config.settings import Settings
from turnstile.ops.doctor.stream_inspection import highest_fence
from turnstile.streaming.event import name_stream


async def test_a_stream_without_events_has_no_fence(settings: Settings, keys: redis.asyncio.Redis) -> None:
    stream = name_stream(settings.redis_prefix, "acme", "s", uuid4())
    await keys.xadd(stream, {"data": "{}"}, id="7-1")
    assert await highest_fence(settings, 1000) == 7

    # No worker can have made this id.
    forged = name_stream(settings.redis_prefix, "acme", "s", uuid4())
    await keys.xadd(forged, {"data": "{}"}, id="18446744073709551615-1")
    assert await highest_fence(settings, 1000) == 7

    # As if it had expired between the scan and the read.
    await keys.xtrim(stream, maxlen=0, approximate=False)
    assert await highest_fence(settings, 1000) == 0
