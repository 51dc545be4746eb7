"""Several servers that stand for one Redis: a primary that sentinels watch, or a cluster of three."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from tests.support.fleet.certificates import Certificates
from tests.support.fleet.servers import BUS, Server, choose_ports
from tests.support.fleet.tls_front import TlsFront
from tests.support.probes import wait_until
from turnstile.dev.stack.ports import LOOPBACK

SERVICE = "turnstile"
SLOTS = 16_384


@dataclass
class Fleet:
    """The URL for a client, and the servers behind it."""

    url: str
    primaries: list[Server] = field(default_factory=list)
    replicas: list[Server] = field(default_factory=list)
    """The replicas of the first primary."""
    sentinels: list[Server] = field(default_factory=list)

    def has_failed_over(self) -> bool:
        """Whether a replica has taken the first primary's place."""
        return self.successor() is not None

    def successor(self) -> Server | None:
        """The replica that has, of those that live."""
        return next((one for one in self.replicas if one.lives and one.client.role()[0] == "master"), None)


@contextmanager
def sentinel_trio(program: str, *, replicas: int = 1) -> Iterator[Fleet]:
    """A primary with its replicas, and three sentinels that fail it over when it is gone for a second."""
    with ExitStack() as ending:
        first, *others = choose_ports(4 + replicas)
        watching, following = others[:3], others[3:]
        primary = _start(ending, program, first, {"repl-diskless-sync-delay": "0"})
        primary.wait()
        behind = [_start(ending, program, port, {"replicaof": f"{LOOPBACK} {first}"}) for port in following]
        for replica in behind:
            replica.wait()
        wait_until(lambda: all(one.client.info("replication")["master_link_status"] == "up" for one in behind))
        sentinels = [_watch(ending, program, port, first, quorum=2) for port in watching]
        wait_until(lambda: all(_knows(one, sentinels=2, replicas=replicas) for one in sentinels))
        named = ",".join(f"{LOOPBACK}:{port}" for port in watching)
        yield Fleet(f"redis+sentinel://{named}/{SERVICE}/0", [primary], behind, sentinels)


@contextmanager
def tls_sentinel(program: str, certificates: Certificates) -> Iterator[Fleet]:
    """A primary and a sentinel, both only to be reached by TLS. A server of 6.2 from a wheel can't speak it by itself."""
    with ExitStack() as ending:
        port, watching = choose_ports(2)
        primary = _start(ending, program, port, {})
        primary.wait()
        shown = ending.enter_context(TlsFront(port, certificates.server))
        sentinel = _watch(ending, program, watching, shown.port, quorum=1)
        front = ending.enter_context(TlsFront(watching, certificates.server))
        wait_until(lambda: _knows(sentinel, sentinels=0, replicas=0))
        url = f"rediss+sentinel://{LOOPBACK}:{front.port}/{SERVICE}/0?ssl_ca_certs={certificates.authority}"
        yield Fleet(url, [primary], [], [sentinel])


@contextmanager
def cluster(program: str, *, replicas: int = 0, certificates: Certificates | None = None) -> Iterator[Fleet]:
    """Three masters, and replicas of the first; with certificates to be reached by TLS."""
    with ExitStack() as ending:
        servers = []
        for port in choose_ports(3 + replicas):
            settings = {
                "cluster-enabled": "yes",
                "cluster-config-file": "nodes.conf",
                "cluster-node-timeout": "1500",
                # The others go on while one has no replica in its place.
                "cluster-require-full-coverage": "no",
                "repl-diskless-sync-delay": "0",
            }
            if certificates is not None:
                front = ending.enter_context(TlsFront(port, certificates.server))
                settings |= {
                    "cluster-announce-ip": LOOPBACK,
                    "cluster-announce-port": str(front.port),
                    "cluster-announce-bus-port": str(port + BUS),
                }
            servers.append(_start(ending, program, port, settings))
        _join(servers[:3], servers[3:])
        scheme, query = ("rediss", f"?ssl_ca_certs={certificates.authority}") if certificates else ("redis", "")
        seeds = ",".join(f"{LOOPBACK}:{_announced(server)}" for server in servers[:2])
        yield Fleet(f"{scheme}+cluster://{seeds}{query}", servers[:3], servers[3:])


def _announced(server: Server) -> str:
    given = server.client.config_get("cluster-announce-port")["cluster-announce-port"]
    return str(server.port) if given == "0" else str(given)


def _start(ending: ExitStack, program: str, port: int, settings: dict[str, str]) -> Server:
    server = Server(program, port, settings)
    ending.callback(server.close)
    return server


def _watch(ending: ExitStack, program: str, port: int, watched: int, *, quorum: int) -> Server:
    sentinel = Server(
        program,
        port,
        {},
        sentinel=(
            f"sentinel monitor {SERVICE} {LOOPBACK} {watched} {quorum}\n"
            f"sentinel down-after-milliseconds {SERVICE} 1000\n"
            f"sentinel failover-timeout {SERVICE} 4000\n"
        ),
    )
    ending.callback(sentinel.close)
    sentinel.wait()
    return sentinel


def _knows(sentinel: Server, *, sentinels: int, replicas: int) -> bool:
    state = sentinel.client.sentinel_master(SERVICE)
    return bool(
        state["flags"] == "master" and state["num-other-sentinels"] == sentinels and state["num-slaves"] == replicas
    )


def _join(masters: list[Server], replicas: list[Server]) -> None:
    share = -(-SLOTS // len(masters))
    for number, master in enumerate(masters):
        master.wait()
        master.client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
        slots = range(number * share, min(SLOTS, (number + 1) * share))
        master.client.execute_command("CLUSTER ADDSLOTS", *slots)
    servers = masters + replicas
    for other in servers[1:]:
        other.wait()
        masters[0].client.execute_command("CLUSTER MEET", LOOPBACK, other.port, other.port + BUS)
    wait_until(lambda: all(_sees(server, len(servers)) for server in servers))
    name = masters[0].client.execute_command("CLUSTER MYID")
    for replica in replicas:
        replica.client.execute_command("CLUSTER REPLICATE", name)
    wait_until(
        lambda: (
            all(one.client.info("replication").get("master_link_status") == "up" for one in replicas)
            and all(len(master.client.execute_command("CLUSTER REPLICAS", name)) == len(replicas) for master in masters)
        )
    )


def _sees(server: Server, nodes: int) -> bool:
    state = server.client.execute_command("CLUSTER INFO")
    return bool(state["cluster_state"] == "ok" and int(state["cluster_known_nodes"]) == nodes)
