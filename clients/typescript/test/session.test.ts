import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { type SessionDetail, type SessionProgress, Turnstile } from "../src/index.js";
import { type Answer, cutStream, event, fakeApi, json, problem, silentStream, stream } from "./fake_api.js";

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
async function follow(test: TestContext, ends: number, since: Partial<SessionDetail> | undefined, ...answers: Answer[]) {
  const api = await fakeApi(test, ...answers);
  const seen: SessionProgress[] = [];
  for await (const progress of new Turnstile(api).session("s").follow({ since: since as SessionDetail })) {
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
    undefined,
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
    undefined,
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

test("a stream since a read begins with the first turn that was open", async (t) => {
  const open = [
    { id: "a", seq: 1 },
    { id: "b", seq: 2 },
  ] as unknown as SessionDetail["open"];
  const { received } = await follow(t, 1, { messages: [], open }, stream(metadata("a"), ended("a", 1, "x")));

  assert.equal(received[0]?.url, "/v1/sessions/s/stream?wait=true&starting_after=a:0-0");
});

test("a stream since a read without open turns begins after the last turn", async (t) => {
  const messages = [{ turn_id: "a", seq: 1 }] as unknown as SessionDetail["messages"];
  const failed = [{ id: "b", seq: 2 }] as unknown as SessionDetail["failed"];
  const { shown, received } = await follow(
    t,
    1,
    { messages, failed },
    stream(metadata("b"), said("b", 1, "known"), ended("b", 2, "known"), metadata("c"), ended("c", 1, "new")),
  );

  assert.equal(received[0]?.url, "/v1/sessions/s/stream?wait=true&starting_after=b:0-0");
  assert.deepEqual(shown, [
    ["metadata", "c", ""],
    ["end", "c", "new"],
  ]);
});

test("a read names what it includes", async (t) => {
  const api = await fakeApi(t, json({ id: "s", messages: [] }));

  await new Turnstile(api).session("s").read({ include: ["open", "failed"], limit: 5 });

  assert.equal(api.received[0]?.url, "/v1/sessions/s?include=open%2Cfailed&limit=5");
});

test("a session without turns is undefined", async (t) => {
  const api = await fakeApi(t, problem(404, "not-found"));

  assert.equal(await new Turnstile(api).session("s").read(), undefined);
});
