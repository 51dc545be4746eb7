import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { type SessionProgress, Turnstile } from "../src/index.js";
import { type Answer, cutStream, event, fakeApi, silentStream, stream } from "./fake_api.js";

function metadata(turnId: string): string {
  return event("metadata", { turn_id: turnId, session_id: "s", status: "RUNNING", attempt: 1 });
}

function said(turnId: string, n: number, text: string): string {
  return event("delta", { text }, `${turnId}:1-${n}`);
}

function ended(turnId: string, n: number, output: string): string {
  return event("end", { turn_id: turnId, status: "SUCCEEDED", output }, `${turnId}:1-${n}`);
}

/** Follows until so many turns have ended. */
async function follow(test: TestContext, ends: number, ...answers: Answer[]) {
  const api = await fakeApi(test, ...answers);
  const seen: SessionProgress[] = [];
  for await (const progress of new Turnstile(api).session("s").follow()) {
    seen.push(progress);
    if (seen.filter((one) => one.event === "end").length === ends) {
      break;
    }
  }
  return { shown: seen.map(({ event: name, turnId, text }) => [name, turnId, text]), received: api.received };
}

test("each turn has a text of its own", async (t) => {
  const { shown, received } = await follow(
    t,
    2,
    stream(metadata("a"), said("a", 1, "one"), ended("a", 2, "one"), metadata("b"), said("b", 1, "two"), ended("b", 2, "two")),
  );

  assert.deepEqual(shown, [
    ["metadata", "a", ""],
    ["delta", "a", "one"],
    ["end", "a", "one"],
    ["metadata", "b", ""],
    ["delta", "b", "two"],
    ["end", "b", "two"],
  ]);
  assert.equal(received[0]?.url, "/v1/sessions/s/stream?wait=true");
});

test("a break in the middle of a turn is not seen", async (t) => {
  const { shown, received } = await follow(
    t,
    1,
    cutStream(metadata("a"), said("a", 1, "o")),
    silentStream(metadata("a"), said("a", 2, "ne"), ended("a", 3, "one")),
  );

  assert.deepEqual(shown, [
    ["metadata", "a", ""],
    ["delta", "a", "o"],
    ["delta", "a", "one"],
    ["end", "a", "one"],
  ]);
  assert.equal(received[1]?.headers["last-event-id"], "a:1-1");
});
