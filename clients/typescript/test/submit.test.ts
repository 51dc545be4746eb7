import assert from "node:assert/strict";
import { test } from "node:test";

import { ProblemError, Turnstile } from "../src/index.js";
import { type Answer, breaks, fakeApi, json, problem } from "./fake_api.js";

const ACCEPTED = json({ id: "0198", session_id: "s" }, 202);

/** The status line and the headers come, and the connection breaks within the body. */
const breaksWithin: Answer = (response) => {
  response.writeHead(202, { "Content-Type": "application/json", "Content-Length": 100 });
  response.write("{", () => response.destroy());
};

test("a submit sends the input, the fields and a key", async (t) => {
  const api = await fakeApi(t, ACCEPTED);

  const turn = await new Turnstile(api).session("chat-1").submit({ text: "hi" }, { queue: "slow", key: "message-7" });

  assert.equal(turn.id, "0198");
  const [sent] = api.received;
  assert.deepEqual([sent?.method, sent?.url], ["POST", "/v1/sessions/chat-1/turns"]);
  assert.deepEqual(JSON.parse(sent?.body ?? ""), { queue: "slow", input: { text: "hi" } });
  assert.equal(sent?.headers["idempotency-key"], "message-7");
});

test("each submit has a key of its own", async (t) => {
  const api = await fakeApi(t, ACCEPTED);
  const session = new Turnstile(api).session("s");

  await session.submit("a");
  await session.submit("a");

  const keys = api.received.map((one) => one.headers["idempotency-key"]);
  assert.equal(new Set(keys).size, 2);
  assert.match(String(keys[0]), /^[0-9a-f]{32}$/);
});

test("a submit whose answer got lost is repeated with the same key and body", async (t) => {
  const api = await fakeApi(t, breaks, breaksWithin, problem(503, "unavailable", 0), ACCEPTED);

  const turn = await new Turnstile(api).session("s").submit("a");

  assert.equal(turn.id, "0198");
  assert.equal(api.received.length, 4);
  assert.equal(new Set(api.received.map((one) => one.headers["idempotency-key"] + one.body)).size, 1);
});

test("a refusal is thrown at once, with the problem", async (t) => {
  const api = await fakeApi(t, problem(422, "invalid-body"));

  await assert.rejects(new Turnstile(api).session("s").submit(""), (error: unknown) => {
    assert.ok(error instanceof ProblemError);
    assert.deepEqual([error.status, error.problem.type, error.message], [422, "/problems/invalid-body", "invalid-body: what to do"]);
    return true;
  });
  assert.equal(api.received.length, 1);
});

test("a submit does not wait for other turns to end", async (t) => {
  const api = await fakeApi(t, problem(429, "too-many-open-turns", 1));

  await assert.rejects(new Turnstile(api).session("s").submit("a"), { retryAfterSeconds: 1 });
  assert.equal(api.received.length, 1);
});

test("a refusal that lasts longer than a minute is thrown at once", async (t) => {
  const api = await fakeApi(t, problem(429, "rate-limited", 600));

  await assert.rejects(new Turnstile(api).session("s").submit("a"), { name: "ProblemError", retryAfterSeconds: 600 });
  assert.equal(api.received.length, 1);
});

test("the caller's signal ends a submit between two tries", async (t) => {
  const api = await fakeApi(t, problem(503, "unavailable", 30));
  const signal = AbortSignal.timeout(100);

  await assert.rejects(new Turnstile(api).session("s").submit("a", { signal }), { name: "TimeoutError" });
  assert.equal(api.received.length, 1);
});
