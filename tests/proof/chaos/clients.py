"""The clients of a run: they submit, repeat requests without a response, read and cancel, and record the responses."""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

import httpx

from tests.proof.chaos.applications import LONGEST_OPEN_SECONDS, Application, Fate, draw_fate
from tests.proof.chaos.journal import Journal, now
from tests.proof.chaos.readers import Reader
from tests.proof.chaos.scaled_settings import TENANTS, Options
from tests.proof.chaos.supervisor import pause
from tests.proof.chaos.workload import Wish, calmed, make_memory_wish, make_speech, make_wish
from tests.proof.checker.evidence import Call

TIMEOUT_SECONDS = 4.0
MAX_OPEN = 30
"""A client that waits for so many answers submits nothing further, or an outage would end in a backlog of minutes."""
TRIES = 40
MAX_READERS = 2
"""How many readers one client has at a time."""
REFUSALS = 2
BURSTS = (1, 1, 1, 2, 3)
SUBMITS = 0.6
WAIT_SECONDS = 2
WAITS = 0.08
"""The share of the submits and the reads that ask to be answered when the turn has ended."""
LONG_WAIT_SECONDS = 8
LONG_WAITS = 0.04
"""The share of a calm run's rounds with a slow turn and a request that waits for it. It shows whether waits end by event."""
WEBHOOKS = 0.12
"""The share of the submits that ask for a webhook."""
EARLY_CANCELS = 0.1
"""The share of the turns with an id chosen by the client that are cancelled before they are submitted."""
KIN_CANCELS = 0.2
"""The share of the cancels that are about a session with children, which no client knows."""
TURNS_A_ROUND = SUBMITS * sum(BURSTS) / len(BURSTS)
"""How many turns one round of a client has, on average."""


@dataclass(slots=True)
class Tally:
    """What all clients have come to together."""

    accepted: int = 0
    calls: int = 0


@dataclass(slots=True)
class _Session:
    id: str
    submitted: int = 0


@dataclass(slots=True)
class Client:
    """One client, of one tenant. `next_api` names the API to try next."""

    name: str
    options: Options
    journal: Journal
    tally: Tally
    http: httpx.AsyncClient
    next_api: Callable[[], str]
    stopping: asyncio.Event
    webhook_url: str | None = None
    application: Application | None = None
    """What submits some of the turns in transactions of its own."""
    rng: random.Random = field(init=False)
    tenant: str = field(init=False)
    _sessions: list[_Session] = field(init=False)
    _open: dict[str, str] = field(default_factory=dict)
    """Turns that have not been seen to end -> session."""
    _kin: deque[str] = field(default_factory=lambda: deque(maxlen=3))
    """Sessions in which children of the newest families may stand."""
    _reading: set[asyncio.Task[None]] = field(default_factory=set)
    _readers: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(f"{self.options.seed}/{self.name}")
        self.tenant = self.rng.choice(list(TENANTS))
        self._sessions = [self._new_session() for _ in range(self.options.sessions)]

    async def run(self) -> None:
        while not self.stopping.is_set():
            dice = self.rng.random()
            if self.options.is_calm and self.webhook_url and self.rng.random() < LONG_WAITS:
                self._spawn(self._wait_for_long())
            if self.options.erasures and self.rng.random() < self.options.erasures:
                await self._erase_one()
            elif dice < SUBMITS and len(self._open) < MAX_OPEN:
                await self._submit_some()
            elif dice < 1 - self.options.cancels or self.options.is_calm:
                await self._read_some()
            else:
                await self._cancel_one()
            await pause(self.rng.expovariate(1 / self._mean_pause()), self.stopping)
        if self._reading:
            await asyncio.wait(self._reading, timeout=TIMEOUT_SECONDS + LONG_WAIT_SECONDS)

    def _mean_pause(self) -> float:
        if self.options.turns_per_second is None:
            return self.options.pause_seconds
        return self.options.clients * TURNS_A_ROUND / self.options.turns_per_second

    async def submit_special(self, content: dict[str, Any], max_attempts: int | None = None) -> str | None:
        """A turn that the nemesis wants submitted, in a session of its own choice."""
        session = self.rng.choice(self._sessions)
        return await self._submit(session.id, Wish(content=content, max_attempts=max_attempts))

    async def submit_under(self, key: str, session: str, content: dict[str, Any]) -> str | None:
        """One try to submit a turn under an Idempotency-Key; None if it was refused or not answered."""
        return await self._post_turn(session, Wish(content=content), {"input": content}, {"Idempotency-Key": key}, key)

    async def read(self, turn_id: str, session: str, wait: float | None = None) -> str | None:
        """A turn's status, after as many seconds of waiting for its end at most; None if that was not answered."""
        fields = {"op": "read", "session": session, "turn_id": turn_id, "wait": wait}
        path = f"/v1/turns/{turn_id}" if wait is None else f"/v1/turns/{turn_id}?wait={wait:g}"
        answer = await self._call("GET", path, fields)
        return None if answer is None else str(answer["status"])

    def _new_session(self) -> _Session:
        return _Session(f"{self.name}-{self.rng.getrandbits(40):010x}")

    async def _submit_some(self) -> None:
        place = self.rng.randrange(len(self._sessions))
        session = self._sessions[place]
        for _ in range(self.rng.choice(BURSTS)):
            terms = self.options
            wish = make_wish(self.rng, now(), terms.sleep_seconds, terms.families, terms.histories)
            if terms.is_calm:
                wish = calmed(wish)
            if self.options.speeches and self.rng.random() < self.options.speeches:
                wish = make_speech(self.rng)
            if self.rng.random() < self.options.memory:
                wish = make_memory_wish(self.rng)
            await self._submit(session.id, wish)
            session.submitted += 1
        if session.submitted >= self.options.turns_a_session:
            self._sessions[place] = self._new_session()

    async def _submit(self, session: str, wish: Wish) -> str | None:
        if self.application and wish.on_busy is None and self.rng.random() < self.options.transactions:
            return await self._submit_in_transaction(self.application, session, wish)
        body: dict[str, Any] = {"input": wish.content}
        if wish.scheduled_seconds is not None:
            body["execute_at"] = (datetime.now(UTC) + timedelta(seconds=wish.scheduled_seconds)).isoformat()
        if wish.max_attempts is not None:
            body["max_attempts"] = wish.max_attempts
        if wish.on_busy is not None:
            body["on_busy"] = wish.on_busy
        # The end of a merged turn is posted as the turn that it joined asks.
        if self.webhook_url is not None and wish.on_busy != "merge" and self.rng.random() < WEBHOOKS:
            body["webhook_url"] = self.webhook_url
        wait = WAIT_SECONDS if wish.on_busy != "merge" and self.rng.random() < WAITS else None
        key, headers = None, {} if wait is None else {"Prefer": f"wait={wait}"}
        dice = self.rng.random()
        if dice < 0.75:
            key = f"{self.name}-{self.rng.getrandbits(64):016x}"
            headers["Idempotency-Key"] = key
        elif dice < 0.85 and wish.on_busy != "merge":
            # Each tenant has ids of its own: they begin with twelve digits of its name's hash.
            prefix = sha256(self.tenant.encode()).hexdigest()[:12]
            chosen = UUID(int=int(prefix, 16) << 80 | self.rng.getrandbits(80), version=4)
            body["turn_id"] = str(chosen)
            key = f"turn:{chosen}"
            if self.rng.random() < EARLY_CANCELS and not self.options.is_calm:
                await self._cancel(str(chosen), session)
        if key and self.rng.random() < 0.05:
            answers = await asyncio.gather(*(self._post_turn(session, wish, body, headers, key) for _ in range(3)))
        else:
            answers = [await self._post_turn(session, wish, body, headers, key)]
        # Without a key a repeat would be another turn: what was not answered stays unknown. A refusal is an answer too, which
        # the repeats must get again.
        tries = REFUSALS if wish.on_busy == "reject" else TRIES
        for _ in range(tries if key else 0):
            if any(answers) or self.stopping.is_set():
                break
            await pause(self.rng.uniform(0.05, 0.3))
            answers = [await self._post_turn(session, wish, body, headers, key)]
        for turn_id in filter(None, answers):
            self._open[turn_id] = session
            if any(child["shared"] for child in wish.content.get("children", ())):
                self._kin.append(wish.content["session"])
            if wish.content["do"] == "speak" and len(self._reading) < MAX_READERS:
                self._follow(turn_id)
            return turn_id
        return None

    async def _submit_in_transaction(self, application: Application, session: str, wish: Wish) -> str | None:
        options: dict[str, Any] = {"key": f"{self.name}-{self.rng.getrandbits(64):016x}", "tenant": self.tenant}
        if wish.scheduled_seconds is not None:
            options["execute_at"] = datetime.now(UTC) + timedelta(seconds=wish.scheduled_seconds)
        options["max_attempts"] = wish.max_attempts
        fate = draw_fate(self.rng)
        # A transaction that was to commit is repeated until it is known to have done so.
        for _ in range(TRIES if fate is Fate.COMMITS else 1):
            begun, seconds = now(), self.rng.random() ** 4 * LONGEST_OPEN_SECONDS
            outcome, turn_id = await application.submit(session, wish.content, fate, seconds, **options)
            said = {"tenant": self.tenant, "session": session, "key": options["key"], "content": wish.content}
            self.journal.write(
                Call(client=self.name, op="submit", at=begun, until=now(), outcome=outcome, turn_id=turn_id, **said)
            )
            if turn_id is not None:
                self.tally.accepted += 1
                self._open[turn_id] = session
                return turn_id
            if self.stopping.is_set():
                break
            await pause(self.rng.uniform(0.05, 0.3))
        return None

    def _follow(self, turn_id: str) -> None:
        self._readers += 1
        reader = Reader(
            # Two of them may follow one turn, into which two submits were merged.
            name=f"{self.name}/{self._readers}",
            turn_id=turn_id,
            headers={"Authorization": f"Bearer {TENANTS[self.tenant]}"},
            http=self.http,
            next_api=self.next_api,
            journal=self.journal,
            rng=random.Random(f"{self.options.seed}/{turn_id}"),
        )
        self._spawn(reader.follow(self.stopping))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def _wait_for_long(self) -> None:
        turn_id = await self.submit_special({"do": "sleep", "seconds": round(self.rng.uniform(2.5, 5.0), 3)})
        if turn_id is not None:
            await self._look(turn_id, LONG_WAIT_SECONDS)

    async def _post_turn(
        self, session: str, wish: Wish, body: dict[str, Any], headers: dict[str, str], key: str | None
    ) -> str | None:
        fields = {
            "op": "submit",
            "session": session,
            "key": key,
            "content": wish.content,
            "wait": WAIT_SECONDS if "Prefer" in headers else None,
            "webhook": "webhook_url" in body,
        }
        answer = await self._call("POST", f"/v1/sessions/{session}/turns", fields, json=body, headers=headers)
        if answer is None:
            return None
        self.tally.accepted += 1
        return str(answer["id"])

    async def _read_some(self) -> None:
        for turn_id in self.rng.sample(list(self._open), min(3, len(self._open))):
            await self._look(turn_id, WAIT_SECONDS if self.rng.random() < WAITS else None)

    async def _look(self, turn_id: str, wait: float | None) -> None:
        if await self.read(turn_id, self._open.get(turn_id, ""), wait) in {"SUCCEEDED", "FAILED", "CANCELED"}:
            self._open.pop(turn_id, None)

    async def _cancel_one(self) -> None:
        if self._kin and self.rng.random() < KIN_CANCELS:
            kin = self._kin.pop()
            await self._call("POST", f"/v1/sessions/{kin}/cancel", {"op": "cancel_session", "session": kin})
        elif self._open:
            turn_id = self.rng.choice(list(self._open))
            await self._cancel(turn_id, self._open[turn_id])

    async def _erase_one(self) -> None:
        """The session goes on with the next submit, which begins a clean one."""
        session = self.rng.choice(self._sessions)
        await self._call("DELETE", f"/v1/sessions/{session.id}", {"op": "erase", "session": session.id})
        # Also without an answer: it may have been carried out, and then these turns never end for anybody.
        self._open = {turn_id: its for turn_id, its in self._open.items() if its != session.id}

    async def _cancel(self, turn_id: str, session: str) -> None:
        fields = {"op": "cancel", "session": session, "turn_id": turn_id}
        await self._call("POST", f"/v1/turns/{turn_id}/cancel", fields)

    async def _call(
        self, method: str, path: str, fields: dict[str, Any], *, json: Any = None, headers: Any = None
    ) -> dict[str, Any] | None:
        """The answer's body if it is 2xx. Whatever happens, the history says what was asked and what was known after."""
        self.tally.calls += 1
        begun = now()
        answer: dict[str, Any] = {}
        code: int | None = None
        try:
            response = await self.http.request(
                method,
                self.next_api() + path,
                json=json,
                headers={"Authorization": f"Bearer {TENANTS[self.tenant]}", **(headers or {})},
                # More patience than a wait explains, or one that is too long would never be seen.
                timeout=TIMEOUT_SECONDS + 2 * waits if (waits := fields.get("wait")) else TIMEOUT_SECONDS,
            )
            code = response.status_code
            answer = response.json()
            outcome = "ok" if code < 300 else "fail" if code < 500 else "unknown"
        except (httpx.HTTPError, ValueError):
            outcome = "unknown"
        known = {name: answer.get(name) for name in ("status", "generation", "output")}
        turn_id = fields.get("turn_id") or answer.get("id")
        call = {**fields, **known, "turn_id": turn_id} if outcome == "ok" else fields
        self.journal.write(
            Call(client=self.name, at=begun, until=now(), outcome=outcome, http=code, tenant=self.tenant, **call)
        )
        return answer if outcome == "ok" else None
