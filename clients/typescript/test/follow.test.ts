import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { type Progress, ProblemError, Turnstile } from "../src/index.js";
import { type Answer, cutStream, event, fakeApi, json, problem, silentStream, stream } from "./fake_api.js";

const METADATA = event("metadata", { turn_id: "t", session_id: "s", status: "RUNNING", attempt: 1 });
const RUNNING = event("status", { status: "RUNNING", attempt: 1 }, "1-1");
const HELLO = event("delta", { text: "Hello" }, "1-2");
const WORLD = event("delta", { text: ", world" }, "1-3");
const END = event("end", { turn_id: "t", status: "SUCCEEDED", output: "Hello, world" }, "1-4");

async function follow(test: TestContext, ...answers: Answer[]) {
  const api = await fakeApi(test, ...answers);
  const seen: Progress[] = [];
  for await (const progress of new Turnstile({ url: api.url }).turn("t").follow()) {
    seen.push(progress);
  }
  return { seen, texts: seen.map((one) => one.text), names: seen.map((one) => one.event), received: api.received };
}

test("the text grows to the reply, and the end is the last event", async (t) => {
  const { texts, names } = await follow(t, stream(METADATA, RUNNING, HELLO, WORLD, END));

  assert.deepEqual(texts, ["", "", "Hello", "Hello, world", "Hello, world"]);
  assert.deepEqual(names, ["metadata", "status", "delta", "delta", "end"]);
});

test("a broken connection is resumed behind the last whole event", async (t) => {
  const cut = WORLD.slice(0, -10);
  const { texts, names, received } = await follow(
    t,
    cutStream(METADATA, RUNNING, HELLO + cut),
    stream(METADATA, WORLD, END),
  );

  assert.deepEqual(texts, ["", "", "Hello", "Hello, world", "Hello, world"]);
  assert.deepEqual(names, ["metadata", "status", "delta", "delta", "end"]);
  assert.deepEqual(
    received.map((one) => one.headers["last-event-id"]),
    [undefined, "1-2"],
  );
});

test("a stream that the server closes without an end is resumed", async (t) => {
  const { texts } = await follow(t, stream(METADATA, RUNNING, HELLO), stream(METADATA, WORLD, END));

  assert.equal(texts.at(-1), "Hello, world");
});

test("a connection that breaks within a character of several bytes loses none of it", async (t) => {
  const bytes = Buffer.from(event("delta", { text: "ä" }, "1-2"));
  const parts = (response: Parameters<Answer>[0]): void => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    const middle = bytes.indexOf(0xc3) + 1;
    response.write(bytes.subarray(0, middle), () => setTimeout(() => response.end(bytes.subarray(middle)), 20));
  };
  const { texts } = await follow(t, parts, stream(event("end", { turn_id: "t", status: "SUCCEEDED", output: "ä" }, "1-3")));

  assert.deepEqual(texts, ["ä", "ä"]);
});

test("a new attempt begins its text again", async (t) => {
  const again = event("status", { status: "RUNNING", attempt: 2 }, "2-1");
  const { texts } = await follow(
    t,
    stream(METADATA, RUNNING, HELLO, again, event("delta", { text: "Hello, world" }, "2-2"), END),
  );

  assert.deepEqual(texts, ["", "", "Hello", "", "Hello, world", "Hello, world"]);
});

test("a turn that waits keeps its text", async (t) => {
  const waits = event("status", { status: "PENDING", attempt: 1, outcome: "retried", after_seconds: 1 }, "1-3");
  const { texts } = await follow(t, stream(METADATA, HELLO, waits, END));

  assert.deepEqual(texts, ["", "Hello", "Hello", "Hello, world"]);
});

test("a reset replaces all text before it", async (t) => {
  const reset = event("reset", { text: "Hello, w", attempt: 1 }, "1-5");
  const { texts } = await follow(t, stream(METADATA, HELLO, reset, event("delta", { text: "orld" }, "1-6"), END));

  assert.deepEqual(texts, ["", "Hello", "Hello, w", "Hello, world", "Hello, world"]);
});

test("a failed turn ends with its error, and keeps the text that was seen", async (t) => {
  const failed = event("error", { turn_id: "t", status: "FAILED", error: { class: "Reject", message: "no" } }, "1-3");
  const { seen } = await follow(t, stream(METADATA, HELLO, failed));

  const last = seen.at(-1);
  assert.equal(last?.event === "error" && last.data.error.message, "no");
  assert.equal(last?.text, "Hello");
});

test("nothing is taken after the end", async (t) => {
  const { names } = await follow(t, stream(METADATA, END, HELLO, END));

  assert.deepEqual(names, ["metadata", "end"]);
});

test("an event that this version does not know is left out, and keeps its place", async (t) => {
  const { names, received } = await follow(t, cutStream(METADATA, event("hologram", {}, "1-2")), stream(METADATA, END));

  assert.deepEqual(names, ["metadata", "end"]);
  assert.equal(received[1]?.headers["last-event-id"], "1-2");
});

test("without further events the end is that of the turn", async (t) => {
  const turn = { id: "t", status: "CANCELED", finished_at: "2026-01-01", output: null, error: null, cancel_reason: "user" };
  const { seen } = await follow(t, cutStream(METADATA, HELLO), (response) => response.writeHead(204).end(), json(turn));

  assert.deepEqual(seen.at(-1), {
    event: "end",
    data: { turn_id: "t", status: "CANCELED", reason: "user" },
    text: "Hello",
  });
});

test("a stream that is refused for a while is opened again", async (t) => {
  const { texts, received } = await follow(
    t,
    problem(503, "unavailable", 0),
    problem(429, "too-many-streams", 0),
    stream(METADATA, END),
  );

  assert.equal(texts.at(-1), "Hello, world");
  assert.equal(received.length, 3);
});

test("an answer that is no stream is not taken for one", async (t) => {
  const { texts } = await follow(t, json("log in, please"), stream(METADATA, END));

  assert.equal(texts.at(-1), "Hello, world");
});

test("a turn that does not exist ends the stream with the problem", async (t) => {
  await assert.rejects(follow(t, problem(404, "not-found")), (error: unknown) => {
    return error instanceof ProblemError && error.status === 404 && error.problem.type === "/problems/not-found";
  });
});

test("the caller's signal ends the stream", async (t) => {
  const api = await fakeApi(t, silentStream(METADATA, HELLO));
  const stop = new AbortController();
  const texts: string[] = [];

  await assert.rejects(
    async () => {
      for await (const { text } of new Turnstile({ url: api.url }).turn("t").follow({ signal: stop.signal })) {
        texts.push(text);
        if (text === "Hello") {
          stop.abort();
        }
      }
    },
    { name: "AbortError" },
  );
  assert.deepEqual(texts, ["", "Hello"]);
  assert.equal(api.received.length, 1);
});
