import assert from "node:assert/strict";
import { test } from "node:test";

import { type Token, Turnstile } from "../src/index.js";
import { event, fakeApi, json, problem, stream } from "./fake_api.js";

const TURN = json({ id: "t", status: "RUNNING", finished_at: null });
const REFUSED = problem(401, "unauthorized");

function tokens(...given: Token[]) {
  const asked = { times: 0 };
  return { asked, getToken: () => given[Math.min((asked.times += 1), given.length) - 1] as Token };
}

test("all requests show one token, and ask for it once", async (t) => {
  const api = await fakeApi(t, TURN);
  const { asked, getToken } = tokens("first", "second");
  const turn = new Turnstile({ url: api.url, getToken }).turn("t");

  await Promise.all([turn.read(), turn.read()]);
  await turn.read();

  assert.equal(asked.times, 1);
  assert.deepEqual(
    api.received.map((one) => one.headers.authorization),
    ["Bearer first", "Bearer first", "Bearer first"],
  );
});

test("a token that was refused is replaced, and the request is repeated", async (t) => {
  const api = await fakeApi(t, REFUSED, TURN);
  const { getToken } = tokens("first", "second");

  await new Turnstile({ url: api.url, getToken }).turn("t").read();

  assert.deepEqual(
    api.received.map((one) => one.headers.authorization),
    ["Bearer first", "Bearer second"],
  );
});

test("a stream goes on with the next token", async (t) => {
  const end = event("end", { turn_id: "t", status: "SUCCEEDED", output: "a" }, "1-2");
  const api = await fakeApi(t, stream(event("delta", { text: "a" }, "1-1")), REFUSED, stream(end));
  const { getToken } = tokens("first", "second");
  const texts: string[] = [];

  for await (const { text } of new Turnstile({ url: api.url, getToken }).turn("t").follow()) {
    texts.push(text);
  }

  assert.deepEqual(texts, ["a", "a"]);
  assert.deepEqual(
    api.received.map((one) => [one.headers.authorization, one.headers["last-event-id"]]),
    [
      ["Bearer first", undefined],
      ["Bearer first", "1-1"],
      ["Bearer second", "1-1"],
    ],
  );
});

test("a new token that is refused too ends the call", async (t) => {
  const api = await fakeApi(t, REFUSED);
  const { asked, getToken } = tokens("first", "second");

  await assert.rejects(new Turnstile({ url: api.url, getToken }).turn("t").read(), { name: "ProblemError", status: 401 });
  assert.equal(asked.times, 2);
});

test("a token is replaced before it ends", async (t) => {
  const api = await fakeApi(t, TURN);
  const inSeconds = (seconds: number) => new Date(Date.now() + seconds * 1000).toISOString();
  const { getToken } = tokens(
    { token: "short", expires_at: inSeconds(10) },
    { token: "long", expires_at: inSeconds(900) },
  );
  const turn = new Turnstile({ url: api.url, getToken }).turn("t");

  await turn.read();
  await turn.read();
  await turn.read();

  assert.deepEqual(
    api.received.map((one) => one.headers.authorization),
    ["Bearer short", "Bearer long", "Bearer long"],
  );
});

test("what getToken throws ends the call, and the next call asks again", async (t) => {
  const api = await fakeApi(t, TURN);
  let fails = true;
  const getToken = () => {
    if (fails) {
      throw new Error("logged out");
    }
    return "second";
  };
  const turn = new Turnstile({ url: api.url, getToken }).turn("t");

  await assert.rejects(turn.read(), { message: "logged out" });
  fails = false;

  assert.equal((await turn.read()).id, "t");
});
