import assert from "node:assert/strict";
import { test } from "node:test";

import { Connection } from "../src/connection.js";
import { isEnd } from "../src/events.js";
import { resumedStream } from "../src/resumed_stream.js";
import { event, fakeApi, silentStream, stream } from "./fake_api.js";

test("a connection without heartbeats is given up, and the stream goes on", async (t) => {
  const api = await fakeApi(t, silentStream(event("delta", { text: "a" }, "1-1")), stream(event("end", {}, "1-2")));
  const ids: (string | undefined)[] = [];

  for await (const { id } of resumedStream(new Connection(api), "/", { isLast: isEnd, silenceMs: 50 })) {
    ids.push(id);
  }

  assert.deepEqual(ids, ["1-1", "1-2"]);
  assert.equal(api.received[1]?.headers["last-event-id"], "1-1");
});

test("a reader that takes its time is not a silent connection", async (t) => {
  const api = await fakeApi(t, stream(event("delta", { text: "a" }, "1-1"), event("end", {}, "1-2")));
  const ids: (string | undefined)[] = [];

  for await (const { id } of resumedStream(new Connection(api), "/", { isLast: isEnd, silenceMs: 50 })) {
    ids.push(id);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }

  assert.deepEqual(ids, ["1-1", "1-2"]);
  assert.equal(api.received.length, 1);
});
