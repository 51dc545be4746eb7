"""Locks (I14): only its owner deletes, extends or overwrites a session lock, and at rest there is none."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.proof.checker.evidence import RedisCommand
from tests.proof.checker.ledger import Ledger
from tests.proof.checker.rule import Findings, Session, rule
from tests.proof.checker.vocabulary import LOCK, WAITING

DOUBT_SECONDS = 0.05
"""So long before a lock expires it may be gone already: the watcher's times are not those of Redis's expiry."""

FORGETS = frozenset({"FLUSHALL", "FLUSHDB", "SHUTDOWN", "DEBUG"})
SCRIPTS = frozenset({"EVAL", "EVALSHA"})


@dataclass(slots=True)
class _Lock:
    token: str
    until: float


@rule("I14")
def locks_are_given_back(ledger: Ledger) -> Findings:
    for key in ledger.evidence.keys:
        if LOCK in key.key:
            yield _session(key.key), f"{key.key} is left at rest (of {key.value}, for {key.ttl_ms} ms)"


@rule("I14")
def owners_touch_locks(ledger: Ledger) -> Findings:
    """What the watcher can't know (after a gap, a flush, an expiry) is not a violation."""
    known: dict[str, _Lock] = {}
    for script, commands in _scripts(ledger.evidence.redis):
        if script.source == "gap" or _name(script) in FORGETS:
            known.clear()
        elif _name(script) in SCRIPTS:
            yield from _run(_token(script), commands, known)
        else:
            yield from _run(None, [script], known)


def _session(key: str) -> Session:
    """The session in a lock's key, whose hash tag is `{tenant/session}`."""
    tag = key.partition("{")[2].partition("}")[0]
    return Session(tag.partition("/")[2] or None)


def _scripts(commands: Sequence[RedisCommand]) -> Iterator[tuple[RedisCommand, list[RedisCommand]]]:
    """Each command of a client, with those that it ran as a script: MONITOR shows them right after it."""
    heads = [place for place, command in enumerate(commands) if command.source != "lua"]
    for place, following in zip(heads, [*heads[1:], len(commands)], strict=False):
        yield commands[place], list(commands[place + 1 : following])


def _name(command: RedisCommand) -> str:
    return command.words[0].upper() if command.words else ""


def _token(script: RedisCommand) -> str | None:
    """The first argument of a script, which is the token in all of the lock's."""
    if len(script.words) < 3 or not script.words[2].isdecimal():
        return None
    place = 3 + int(script.words[2])
    return script.words[place] if place < len(script.words) else None


def _run(token: str | None, commands: Sequence[RedisCommand], known: dict[str, _Lock]) -> Findings:
    for place, command in enumerate(commands):
        name = _name(command)
        most = {"SET": 1, "PEXPIRE": 1, "DEL": None, "UNLINK": None}.get(name, 0)
        for key in (word for word in command.words[1:][:most] if LOCK in word and not word.endswith(WAITING)):
            if key in known and command.at >= known[key].until - DOUBT_SECONDS:
                del known[key]
            lock = known.get(key)
            # Outside of a script (no token) the owner was not compared.
            foreign = lock is not None and lock.token != token
            says = f"{name} of {key} by {token or command.source}, while {lock.token if lock else ''} had it locked"
            if name == "SET":
                yield from _set(token, command, commands[place + 1 :], known)
            elif name == "PEXPIRE":
                if foreign:
                    yield _session(key), says
                if lock is not None:
                    lock.until = command.at + float(command.words[2]) / 1000
            else:
                # An UNLINK outside of a script is the nemesis's, which flushes the locks of one run.
                if foreign and (name, token) != ("UNLINK", None):
                    yield _session(key), says
                known.pop(key, None)


def _set(token: str | None, command: RedisCommand, rest: Sequence[RedisCommand], known: dict[str, _Lock]) -> Findings:
    _, key, value, *options = command.words
    flags = [option.upper() for option in options]
    lock = known.get(key)
    if "NX" in flags:
        # The script looks at the owner only where SET found one. If it succeeded although a lock is known, the knowledge
        # was wrong (an eviction).
        if any(_name(other) == "GET" and other.words[1:2] == [key] for other in rest):
            return
    elif lock is not None and lock.token != value:
        yield _session(key), f"SET of {key} to {value} by {token or command.source}, while {lock.token} had it locked"
    known.pop(key, None)
    if "PX" in flags:
        known[key] = _Lock(value, command.at + float(options[flags.index("PX") + 1]) / 1000)
