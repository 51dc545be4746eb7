"""Redis does not respond; and one that sentinels watch, and a cluster, which do."""

from tests.runbooks.reader import Reader
from tests.support.fleet.fleets import SERVICE, cluster, sentinel_trio
from tests.support.fleet.servers import program_of
from tests.support.stacks.stack import Stack
from turnstile.dev.stack.ports import LOOPBACK
from turnstile.ops.terminal.exit_codes import ExitCode


async def test_the_page(reader: Reader, stack: Stack) -> None:
    reader.names["HOST"] = LOOPBACK
    stack.redis.stop()
    try:
        seen = await reader.up_to("turnstile doctor", code=ExitCode.UNAVAILABLE)
    finally:
        stack.redis.start()
    assert "service-unreachable" in seen.out

    with sentinel_trio(program_of(stack)) as fleet:
        port = fleet.sentinels[0].port
        seen = await reader.up_to("redis-cli -h HOST -p 26379", **{"26379": port, "mymaster": SERVICE})
        assert str(fleet.primaries[0].port) in seen.out
    with cluster(program_of(stack)) as fleet:
        seen = await reader.up_to("redis-cli -h HOST -p 6379", **{"6379": fleet.primaries[0].port})
        assert "cluster_state:ok" in seen.out
