"""One cell of the matrix, from an empty database to the verdict.

The victim works alone until the fault strikes; then a rescuer, healthy and of the same code, does the rest. What a fault
needs afterwards:

- a victim that was stopped is continued once everything is at rest without it, does whatever it still believes in, and
  everything must be at rest again;
- a victim that hangs lives on until every turn has ended, or for PATIENCE_SECONDS; then it is killed, because no time-out
  of the product ends a hang inside the product: from there on the cell is a SIGKILL after a hang. Whether the turns
  needed that is part of the result. The same holds for a bug (EXCEPTION) that leaves something hanging.
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.proof.crashpoints.actors import Actor, Part, fork_actor
from tests.proof.crashpoints.passing import FaultKind, Strike
from tests.proof.crashpoints.points import Point
from tests.proof.crashpoints.stories import STORIES, Story

PATIENCE_SECONDS = 6.0
STRIKE_SECONDS = 15.0
BOUND_SECONDS = 30.0
"""How long anything may take that has to happen by itself. Short time-outs rest within three seconds, those of Postgres take ten
and more."""
STALE_SECONDS = 0.5
CLIENT_SECONDS = 1.0
ROW_LOCK_SECONDS = 6.0
"""Longer than it takes a worker to use up its tries at a locked row."""
POLL_SECONDS = 0.06
CLIENTS = ("api", "application")
"""The roles that answer the requests of a story, which are repeated until they are answered."""
REPEATED = (*CLIENTS, "redrive", "erase")
REPEATS = 5
"""A session that a stopped API holds answers 503 for ten seconds, until Postgres ends that: its client asks again."""


class StuckError(Exception):
    """Something that has to happen did not happen within its bound."""


class NotStruckError(StuckError):
    """The victim never came to the point: the cell says nothing about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One point, one fault, Redis kept or flushed, one kind of queue."""

    point: Point
    fault: FaultKind
    flush: bool
    fifo: bool

    @property
    def name(self) -> str:
        return " | ".join(
            [
                str(self.point),
                self.fault.value,
                "flushed" if self.flush else "kept",
                "fifo" if self.fifo else "standard",
            ]
        )


@dataclass(slots=True, kw_only=True)
class Result:
    name: str
    fault: str
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)
    killed_to_end: bool = False
    """The turns of a victim that hung ended only after it was killed."""
    not_struck: bool = False


class Director:
    def __init__(self, stack: Any, folder: Path, cell: Cell, seed: int) -> None:
        self.stack, self.folder, self.cell, self.seed = stack, folder, cell, seed
        self.story: Story = STORIES[cell.point.story]
        self.result = Result(name=cell.name, fault=cell.fault.value)
        self.healed_at = 0.0
        self.struck_at = 0.0
        self.rested_at: float | None = None
        self._actors: list[Actor] = []
        self._requests: dict[int, str] = {}

    def play(self) -> Result:
        """The whole of it. To be called in a process that has no threads yet."""
        began = time.monotonic()
        for _ in range(2 + self.story.other_queue + (REPEATS if self.story.role in REPEATED else 0)):
            self._actors.append(fork_actor(self._actors))
        self._spare = list(self._actors)
        from tests.proof.crashpoints.stage import Stage

        with closing(Stage(self.stack, self.folder, fifo=self.cell.fifo, **self.story.options)) as self.stage:
            try:
                self._perform()
            except StuckError as error:
                self.result.problems.append(str(error))
                self.result.not_struck = isinstance(error, NotStruckError)
            except Exception as error:
                self.result.problems.append(f"the director failed: {type(error).__name__}: {error}")
            finally:
                for actor in self._actors:
                    actor.kill()
                self._collect()
        self.result.seconds = time.monotonic() - began
        return self.result

    def _perform(self) -> None:
        story, stage = self.story, self.stage
        for step in story.scene:
            step(stage)
        self.victim = self._cast(story.role, victim=True)
        self._await_strike()
        stage.unlock_row()
        stage.unlock_session()
        self._rescue()
        match self.cell.fault:
            case FaultKind.STOP:
                self._await(self._at_rest, BOUND_SECONDS, "at rest while the victim sleeps")
                self.victim.signal(signal.SIGCONT)
                self.healed_at = time.time()
                self._listen_for(STALE_SECONDS)
            case FaultKind.HANG | FaultKind.EXCEPTION:
                self._outlive()
        self._await(self._at_rest, BOUND_SECONDS, "at rest")
        self.victim.kill()
        # On a slow machine a victim that was stopped may have sent its messages between this look and its end.
        self._await(self._at_rest, BOUND_SECONDS, "at rest after the victim's end")
        self._tidy_up()
        self.rested_at = time.time()
        self._await(lambda: not stage.is_locked(), stage.settings.lease_seconds + 1.0, None)

    def _cast(self, role: str, *, victim: bool = False, **part: Any) -> Actor:
        options = self.stage.victim_options if victim else self.stage.options
        if victim:
            main = Strike(
                point=self.cell.point.name,
                fault=self.cell.fault,
                after=self.cell.point.after,
                answered_by=self.cell.point.answered_by,
                flush=self.cell.flush,
            )
            part |= {"strikes": (*self.story.preludes, main), "announce": (self.story.at,) if self.story.at else ()}
        part = {"settings": options, "folder": str(self.folder), **part}
        if role in CLIENTS:
            part = {"requests": self.story.requests, **part}
        if role == "redrive":
            part = {"rate": 100.0, **part}
        actor = self._spare.pop(0)
        actor.play(Part(role=role, **part))
        return actor

    def _await_strike(self) -> None:
        began, provoked = time.monotonic(), self.story.at is None
        while True:
            self.victim.listen(POLL_SECONDS)
            self._note_answers(self.victim, self.story.requests)
            if not provoked and any(news.get("passed") == self.story.at for news in self.victim.news):
                provoked = True
                self._go_on()
            if time.monotonic() - began > ROW_LOCK_SECONDS:
                self.stage.unlock_row()
            if struck := next((news for news in self.victim.news if news.get("last")), None):
                # By the victim's own word: its log may speak of the fault before the news of it is read here.
                self.struck_at, self.healed_at = struck["at"], time.time()
                return
            if not self.victim.alive() or time.monotonic() - began > STRIKE_SECONDS:
                self.victim.listen(0)
                if not any(news.get("last") for news in self.victim.news):
                    raise NotStruckError(f"the point was never reached (exit code {self.victim.code})")

    def _go_on(self) -> None:
        if self.story.sigterm:
            self.victim.signal(signal.SIGTERM)
        for step in self.story.then:
            step(self.stage)

    # --- the rescue

    def _rescue(self) -> None:
        if self.story.role in CLIENTS:
            self._repeat_requests()
        self._cast("worker")
        if self.story.other_queue:
            self._cast("worker", settings=self.stage.options | {"queue": self.stage.declared[1]["name"]})
        if self.story.role == "redrive":
            self._repeat_redrive()
        if self.story.role == "erase":
            self._repeat_erasure()

    def _repeat_requests(self) -> None:
        """The client asks again, with the same keys, until it is answered."""
        asking, requests, unanswered = self.victim, self.story.requests, ("answer", self.struck_at, "unknown", None)
        for repeat in range(REPEATS + 1):
            until = time.monotonic() + (CLIENT_SECONDS if asking is self.victim else BOUND_SECONDS)
            while len(self._requests) < len(requests) and time.monotonic() < until and asking.alive():
                asking.listen(POLL_SECONDS)
                self._note_answers(asking, requests)
            asking.listen(0)
            self._note_answers(asking, requests)
            if len(self._requests) == len(requests):
                return
            for number, request in enumerate(requests):
                if number not in self._requests:
                    self.stage.note_submit(request["session"], request["key"], *unanswered)
            if repeat < REPEATS:
                asking = self._cast(self.story.role)
        raise StuckError("the client was never answered")

    def _note_answers(self, actor: Actor, requests: tuple[dict[str, Any], ...]) -> None:
        for news in actor.news:
            if "turn_id" not in news or news["request"] in self._requests:
                continue
            self._requests[news["request"]] = news["turn_id"]
            request = requests[news["request"]]
            self.stage.note_submit(
                request["session"], request["key"], "answer", actor.started_at, "ok", news["turn_id"]
            )
            self.stage.expected[news["turn_id"]] = "SUCCEEDED"

    def _repeat_redrive(self) -> None:
        """An operator runs it again, until it says that it came to its end."""
        for _ in range(REPEATS):
            redrive = self._cast("redrive")
            self._await(lambda: not redrive.alive(), BOUND_SECONDS, "redriven once more")  # noqa: B023
            if redrive.code == 0:
                return
        raise StuckError(f"a redrive without any fault ended with {redrive.code}")

    def _repeat_erasure(self) -> None:
        """The client asks again, until it is answered."""
        for _ in range(REPEATS):
            erasing = self._cast("erase")
            self._await(lambda: not erasing.alive(), BOUND_SECONDS, "asked for the erasure once more")  # noqa: B023
            erasing.listen(0)
            if any(news.get("erased") for news in erasing.news):
                self.stage.note_erasure(self.victim.started_at, "a")
                return
        raise StuckError("the client was never answered")

    def _outlive(self) -> None:
        try:
            self._await(self._at_rest, PATIENCE_SECONDS, "without the end of the victim")
        except StuckError:
            self.result.killed_to_end = not self.stage.rows_at_rest()
        self.victim.kill()
        self.healed_at = time.time()

    # --- the end

    def _at_rest(self) -> bool:
        return self.stage.rows_at_rest() and self.stage.queues_empty()

    def _tidy_up(self) -> None:
        """The next redrive sweeps what one that was cut short has left."""
        if self.story.role == "redrive":
            self._await(lambda: not self.stage.dead_letters_in_flight(), BOUND_SECONDS, "dead letters visible again")
            self.stage.sweep()

    def _await(self, condition: Callable[[], bool], seconds: float, what: str | None) -> None:
        until = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > until:
                if what is None:
                    return
                raise StuckError(f"not within {seconds:g} s: {what}: {self.stage.statuses()}")
            self._listen_for(POLL_SECONDS)

    def _listen_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.victim.listen(left)

    def _collect(self) -> None:
        from tests.proof.crashpoints.verdict import collect, judge

        collect(self, self._actors)
        self.result.problems += judge(self)


def play_in_child(director: Director, report: Connection) -> None:
    os.setsid()
    try:
        result = director.play()
    except BaseException as error:
        result = director.result
        result.problems.append(f"the harness failed: {type(error).__name__}: {error}")
    report.send(result)
    os._exit(0)
