import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { TurnstileAgent } from "../src/ag_ui.js";
import { Turnstile } from "../src/index.js";
import { type Answer, cutStream, fakeApi, json, stream } from "./fake_api.js";

const ACCEPTED = json({ id: "t", session_id: "s" }, 202);
const NOTHING: Answer = (response) => response.writeHead(204).end();

function told(event: object, id?: string): string {
  return `${id === undefined ? "" : `id: ${id}\n`}data: ${JSON.stringify(event)}\n\n`;
}

const STARTED = told({ type: "RUN_STARTED", threadId: "s", runId: "t" });
const BEGUN = told({ type: "TEXT_MESSAGE_START", messageId: "t", role: "assistant" });
const ENDED = told({ type: "TEXT_MESSAGE_END", messageId: "t" });
const FINISHED = told({ type: "RUN_FINISHED", threadId: "s", runId: "t", result: "Hello", outcome: { type: "success" } }, "1-9");
const SNAPSHOT = told({ type: "MESSAGES_SNAPSHOT", messages: [{ id: "t:user", role: "user", content: "hi" }] });

function says(delta: string, id: string): string {
  return told({ type: "TEXT_MESSAGE_CONTENT", messageId: "t", delta }, id);
}

async function agentOf(test: TestContext, ...answers: Answer[]) {
  const api = await fakeApi(test, ...answers);
  const agent = new TurnstileAgent({ client: new Turnstile(api), threadId: "s" });
  agent.addMessage({ id: "m", role: "user", content: "hi" });
  const shown = () => agent.messages.map((message) => [message.role, message.content]);
  return { agent, shown, received: api.received };
}

test("a run submits the last message, and shows the reply", async (t) => {
  const { agent, shown, received } = await agentOf(t, ACCEPTED, stream(STARTED, BEGUN, says("Hello", "1-2"), ENDED, FINISHED));

  await agent.runAgent({ runId: "run-1", forwardedProps: { turnstile: { queue: "slow" } } });

  assert.deepEqual(shown(), [
    ["user", "hi"],
    ["assistant", "Hello"],
  ]);
  assert.deepEqual(JSON.parse(received[0]?.body ?? ""), { queue: "slow", input: "hi" });
  assert.equal(received[0]?.headers["idempotency-key"], "run-1");
  assert.equal(received[1]?.url, "/v1/turns/t/events?as=ag-ui");
});

test("a break in the middle of a message shows it once", async (t) => {
  const { agent, shown, received } = await agentOf(
    t,
    ACCEPTED,
    cutStream(STARTED, BEGUN, says("Hel", "1-2")),
    stream(STARTED, SNAPSHOT, BEGUN, says("Hello", "1-2"), ENDED, FINISHED),
  );

  await agent.runAgent();

  assert.deepEqual(shown(), [
    ["user", "hi"],
    ["assistant", "Hello"],
  ]);
  assert.equal(received[2]?.headers["last-event-id"], "1-2");
});

test("a connect shows the turn that is open", async (t) => {
  const { agent, shown, received } = await agentOf(
    t,
    stream(STARTED, SNAPSHOT, BEGUN, says("Hello", "t:1-2"), ENDED, FINISHED),
    NOTHING,
  );

  await agent.connectAgent();

  assert.deepEqual(shown(), [
    ["user", "hi"],
    ["assistant", "Hello"],
  ]);
  assert.equal(received[0]?.url, "/v1/sessions/s/stream?as=ag-ui");
});

test("a connect without an open turn shows nothing", async (t) => {
  const { agent, shown } = await agentOf(t, NOTHING);

  await agent.connectAgent();

  assert.deepEqual(shown(), [["user", "hi"]]);
});

test("an abort cancels the turn, and the server ends the run", async (t) => {
  const canceled = told({ type: "RUN_ERROR", message: "canceled (client)", code: "canceled" }, "1-3");
  let end: (() => void) | undefined;
  const waits: Answer = (response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.write(STARTED);
    end = () => response.end(canceled);
  };
  const cancels: Answer = (response) => {
    json({ id: "t", status: "RUNNING", cancel_requested: true }, 202)(response);
    end?.();
  };
  const { agent, received } = await agentOf(t, ACCEPTED, waits, cancels);
  const codes: unknown[] = [];

  await agent
    .runAgent(undefined, {
      onRunStartedEvent: () => agent.abortRun(),
      onRunErrorEvent: ({ event }) => {
        codes.push(event.code);
      },
    })
    .catch(() => undefined);

  assert.deepEqual(codes, ["canceled"]);
  assert.equal(received[2]?.url, "/v1/turns/t/cancel");
});

test("a clone has the client of its original", async (t) => {
  const { agent } = await agentOf(t, ACCEPTED, stream(STARTED, BEGUN, says("Hello", "1-2"), ENDED, FINISHED));

  const cloned = agent.clone();
  await cloned.runAgent();

  assert.equal(cloned.messages.at(-1)?.content, "Hello");
});
