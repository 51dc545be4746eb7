"""Locks (I14): only its owner deletes, extends or overwrites a session lock, and at rest there is none."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.proof.checker.evidence import RedisCommand
from tests.proof.checker.ledger import Ledger
from tests.proof.checker.violation import Violation
from tests.proof.checker.vocabulary import LOCK, WAITING

DOUBT_SECONDS = 0.05
"""So long before a lock expires it may be gone already: the watcher's times are not those of Redis's expiry."""

FORGETS = frozenset({"FLUSHALL", "FLUSHDB", "SHUTDOWN", "DEBUG"})
SCRIPTS = frozenset({"EVAL", "EVALSHA"})


@dataclass(slots=True)
class _Held:
    token: str
    until: float


def locks_kept(ledger: Ledger) -> Iterator[Violation]:
    """I14. What the watcher can't know (after a gap, a flush, an expiry) is no violation."""
    for key in ledger.evidence.keys:
        if LOCK in key.key:
            says = f"{key.key} is left at rest (of {key.value}, for {key.ttl_ms} ms)"
            yield Violation("I14", says, None, session_of(key.key))
    known: dict[str, _Held] = {}
    for script, commands in _scripts(ledger.evidence.redis):
        if script.source == "gap" or _name(script) in FORGETS:
            known.clear()
        elif _name(script) in SCRIPTS:
            yield from _run(_token(script), commands, known)
        else:
            yield from _run(None, [script], known)


def session_of(key: str) -> str | None:
    """The session in a lock's key, whose hash tag is `{tenant/session}`."""
    tag = key.partition("{")[2].partition("}")[0]
    return tag.partition("/")[2] or None


def _scripts(commands: Sequence[RedisCommand]) -> Iterator[tuple[RedisCommand, list[RedisCommand]]]:
    """Each command of a client, with those that it ran as a script: MONITOR shows them right after it."""
    head: RedisCommand | None = None
    inside: list[RedisCommand] = []
    for command in commands:
        if command.source == "lua":
            inside.append(command)
            continue
        if head is not None:
            yield head, inside
        head, inside = command, []
    if head is not None:
        yield head, inside


def _name(command: RedisCommand) -> str:
    return command.words[0].upper() if command.words else ""


def _token(script: RedisCommand) -> str | None:
    """The first argument of a script, which is the token in all of the lock's."""
    if len(script.words) < 3 or not script.words[2].isdecimal():
        return None
    place = 3 + int(script.words[2])
    return script.words[place] if place < len(script.words) else None


def _run(token: str | None, commands: Sequence[RedisCommand], known: dict[str, _Held]) -> Iterator[Violation]:
    for place, command in enumerate(commands):
        match _name(command):
            case "SET":
                if keys := _locks(command, 1):
                    _expire(keys[0], command.at, known)
                    yield from _set(token, command, commands[place + 1 :], known)
            case "UNLINK" if token is None:
                # Only the nemesis does this, to flush the locks of one run.
                for key in _locks(command):
                    known.pop(key, None)
            case "DEL" | "UNLINK":
                for key in _locks(command):
                    yield from _touch(token, command, key, known)
                    known.pop(key, None)
            case "PEXPIRE":
                for key in _locks(command, 1):
                    yield from _touch(token, command, key, known)
                    if key in known:
                        known[key].until = command.at + float(command.words[2]) / 1000


def _locks(command: RedisCommand, most: int | None = None) -> list[str]:
    """The keys of session locks among the first `most` arguments."""
    arguments = command.words[1:] if most is None else command.words[1 : 1 + most]
    return [word for word in arguments if LOCK in word and not word.endswith(WAITING)]


def _expire(key: str, at: float, known: dict[str, _Held]) -> None:
    if key in known and at >= known[key].until - DOUBT_SECONDS:
        del known[key]


def _touch(token: str | None, command: RedisCommand, key: str, known: dict[str, _Held]) -> Iterator[Violation]:
    _expire(key, command.at, known)
    held = known.get(key)
    # Outside of a script (no token) the owner was not compared.
    if held is not None and held.token != token:
        says = f"{_name(command)} of {key} by {token or command.source}, while {held.token} held it"
        yield Violation("I14", says, None, session_of(key))


def _set(
    token: str | None, command: RedisCommand, rest: Sequence[RedisCommand], known: dict[str, _Held]
) -> Iterator[Violation]:
    _, key, value, *options = command.words
    flags = [option.upper() for option in options]
    held = known.get(key)
    if "NX" in flags:
        # The script looks at the holder only where SET found one.
        if any(_name(other) == "GET" and other.words[1:2] == [key] for other in rest):
            return
        if held is not None:
            # SET NX succeeded although a lock is known: the knowledge was wrong (an eviction).
            del known[key]
    elif held is not None and held.token != value:
        says = f"SET of {key} to {value} by {token or command.source}, while {held.token} held it"
        yield Violation("I14", says, None, session_of(key))
    if "PX" in flags:
        known[key] = _Held(value, command.at + float(options[flags.index("PX") + 1]) / 1000)
    else:
        known.pop(key, None)
