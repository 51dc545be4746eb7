import assert from "node:assert/strict";
import { test } from "node:test";

import { Turnstile } from "../src/index.js";
import { breaks, fakeApi, json } from "./fake_api.js";

const RUNNING = { id: "t", status: "RUNNING", finished_at: null };
const SUCCEEDED = { id: "t", status: "SUCCEEDED", finished_at: "2026-01-01T00:00:00Z", output: "hi" };

test("a wait lasts over several requests and broken connections until the turn has ended", async (t) => {
  const api = await fakeApi(t, json(RUNNING), breaks, json(SUCCEEDED));

  const turn = await new Turnstile(api).turn("t").wait();

  assert.equal(turn.output, "hi");
  assert.equal(api.received.length, 3);
  assert.equal(api.received[0]?.url, "/v1/turns/t?wait=60");
});

test("a read answers at once", async (t) => {
  const api = await fakeApi(t, json(RUNNING));

  const turn = await new Turnstile(api).turn("t").read();

  assert.equal(turn.status, "RUNNING");
  assert.equal(api.received[0]?.url, "/v1/turns/t");
});

test("a cancel is repeated until it is answered", async (t) => {
  const api = await fakeApi(t, breaks, json({ id: "t", status: "RUNNING", cancel_requested: true }, 202));

  const answer = await new Turnstile(api).turn("t").cancel();

  assert.equal(answer.cancel_requested, true);
  assert.deepEqual(
    api.received.map((one) => `${one.method} ${one.url}`),
    ["POST /v1/turns/t/cancel", "POST /v1/turns/t/cancel"],
  );
});

test("pages of a session go on at a cursor", async (t) => {
  const api = await fakeApi(t, json({ messages: [], next_cursor: null }));

  const page = await new Turnstile(api).session("s").messages({ limit: 5, cursor: "c" });

  assert.deepEqual(page, { messages: [], next_cursor: null });
  assert.equal(api.received[0]?.url, "/v1/sessions/s/messages?limit=5&cursor=c");
});
