import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { AbstractChat, type ChatState, type ChatStatus, type UIMessage } from "ai";

import { TurnstileChatTransport } from "../src/ai_sdk.js";
import { Turnstile } from "../src/index.js";
import { type Answer, breaks, cutStream, fakeApi, json, problem, silentStream, stream } from "./fake_api.js";

const ACCEPTED = json({ id: "t", session_id: "s" }, 202);
const CANCELED = json({ id: "t", status: "RUNNING", cancel_requested: true }, 202);
const NOTHING: Answer = (response) => response.writeHead(204).end();

function told(chunk: unknown, id?: string): string {
  const data = typeof chunk === "string" ? chunk : JSON.stringify(chunk);
  return `${id === undefined ? "" : `id: ${id}\n`}data: ${data}\n\n`;
}

const START = told({ type: "start", messageId: "t" }) + told({ type: "start-step" });
const RESUMED = told({ type: "start", messageId: "t" }) + told({ type: "reset-step" });
const FINISH = told({ type: "finish-step" }) + told({ type: "finish" }) + told("[DONE]", "1-9");

function says(text: string, id: string): string {
  return told({ type: "text-start", id: "1" }) + told({ type: "text-delta", id: "1", delta: text }, id);
}

class State implements ChatState<UIMessage> {
  status: ChatStatus = "ready";
  error = undefined;
  constructor(public messages: UIMessage[]) {}
  pushMessage = (message: UIMessage) => void this.messages.push(message);
  popMessage = () => void this.messages.pop();
  replaceMessage = (index: number, message: UIMessage) => void (this.messages[index] = message);
  snapshot = <T>(thing: T) => structuredClone(thing);
}

/** What `useChat` is without React. */
class Chat extends AbstractChat<UIMessage> {
  constructor(transport: TurnstileChatTransport, messages: UIMessage[] = []) {
    super({ id: "s", transport, state: new State(messages) });
  }

  get shown() {
    return this.messages.map(({ id, role, parts }) => [id, role, parts.map((part) => ("text" in part ? part.text : "")).join("")]);
  }
}

async function transportTo(test: TestContext, ...answers: Answer[]) {
  const { url, received } = await fakeApi(test, ...answers);
  return { transport: new TurnstileChatTransport({ client: new Turnstile({ url }) }), received };
}

test("a message is a turn, and its reply is a message with the turn's id", async (t) => {
  const { transport, received } = await transportTo(t, ACCEPTED, stream(START, says("Hello", "1-2"), FINISH));
  const chat = new Chat(transport);

  await chat.sendMessage({ text: "hi" }, { body: { queue: "slow" } });

  assert.deepEqual(chat.shown.map((one) => one.slice(1)), [["user", "hi"], ["assistant", "Hello"]]);
  assert.deepEqual([chat.status, chat.messages[1]?.id], ["ready", "t"]);
  assert.deepEqual(JSON.parse(received[0]?.body ?? ""), { queue: "slow", input: "hi" });
  assert.equal(received[1]?.url, "/v1/turns/t/events?as=ai-sdk");
});

test("a submit whose answer got lost shows one reply", async (t) => {
  const { transport, received } = await transportTo(t, breaks, ACCEPTED, stream(START, says("Hello", "1-2"), FINISH));
  const chat = new Chat(transport);

  await chat.sendMessage({ text: "hi" });

  assert.equal(chat.messages.length, 2);
  assert.equal(received[0]?.headers["idempotency-key"], received[1]?.headers["idempotency-key"]);
});

test("a break in the middle of a reply shows it once", async (t) => {
  const { transport, received } = await transportTo(
    t,
    ACCEPTED,
    cutStream(START, says("Hel", "1-2")),
    stream(RESUMED, says("Hello", "1-3"), FINISH),
  );
  const chat = new Chat(transport);

  await chat.sendMessage({ text: "hi" });

  assert.deepEqual(chat.shown.map((one) => one.slice(1)), [["user", "hi"], ["assistant", "Hello"]]);
  assert.equal(received[2]?.headers["last-event-id"], "1-2");
});

test("a refused message is the chat's error", async (t) => {
  const { transport } = await transportTo(t, problem(422, "invalid-body"));
  const chat = new Chat(transport);

  await chat.sendMessage({ text: "hi" });

  assert.deepEqual([chat.status, chat.error?.message], ["error", "invalid-body: what to do"]);
});

test("stop cancels the turn, and the text so far stays", async (t) => {
  const { transport, received } = await transportTo(t, ACCEPTED, silentStream(START, says("Hel", "1-2")), CANCELED);
  const chat = new Chat(transport);

  const sending = chat.sendMessage({ text: "hi" });
  await until(() => chat.shown[1]?.[2] === "Hel");
  await chat.stop();
  await sending;
  await until(() => received.length === 3);

  assert.deepEqual([chat.status, chat.shown[1]?.[2]], ["ready", "Hel"]);
  assert.equal(received[2]?.url, "/v1/turns/t/cancel");
});

test("stop before the submit is answered cancels the turn once it is", async (t) => {
  let accept: (() => void) | undefined;
  const waits: Answer = (response) => {
    accept = () => ACCEPTED(response);
  };
  const { transport, received } = await transportTo(t, waits, CANCELED);
  const chat = new Chat(transport);

  const sending = chat.sendMessage({ text: "hi" });
  await until(() => accept !== undefined);
  await chat.stop();
  await sending;
  assert.equal(chat.status, "ready");
  accept?.();
  await until(() => received.length === 2);

  assert.equal(received[1]?.url, "/v1/turns/t/cancel");
});

test("a resume without an open turn shows nothing new", async (t) => {
  const { transport, received } = await transportTo(t, NOTHING);
  const chat = new Chat(transport);

  await chat.resumeStream();

  assert.deepEqual([chat.status, chat.messages], ["ready", []]);
  assert.equal(received[0]?.url, "/v1/sessions/s/stream?as=ai-sdk");
});

const SESSION = json({
  messages: [
    { turn_id: "a", seq: 1, role: "user", content: "first" },
    { turn_id: "a", seq: 1, role: "assistant", content: "one" },
    { turn_id: "c", seq: 3, role: "user", content: "third" },
    { turn_id: "c", seq: 3, role: "assistant", content: "three" },
  ],
  failed: [{ id: "b", seq: 2, input: "second" }],
  canceled: [],
  open: [
    { id: "t", seq: 4, input: "hi" },
    { id: "later", seq: null, input: "at ten o'clock" },
  ],
});

test("a reload shows what was said, and the reply that is still missing after it", async (t) => {
  const { transport, received } = await transportTo(t, SESSION, stream(RESUMED, says("Hello", "1-2"), FINISH), NOTHING);
  const chat = new Chat(transport, await transport.load("s"));

  await chat.resumeStream();
  await chat.resumeStream();

  assert.deepEqual(chat.shown, [
    ["a:user", "user", "first"],
    ["a", "assistant", "one"],
    ["b:user", "user", "second"],
    ["c:user", "user", "third"],
    ["c", "assistant", "three"],
    ["t:user", "user", "hi"],
    ["t", "assistant", "Hello"],
  ]);
  assert.deepEqual(
    received.slice(1).map((one) => one.url),
    ["/v1/turns/t/events?as=ai-sdk", "/v1/sessions/s/stream?as=ai-sdk"],
  );
});

test("a resume that replaces another in the same moment cancels nothing, and shows the reply once", async (t) => {
  const open: Answer = silentStream(RESUMED, says("Hel", "t:1-2"));
  const { transport, received } = await transportTo(t, open, stream(RESUMED, says("Hello", "t:1-2"), FINISH));
  const chat = new Chat(transport);

  const first = chat.resumeStream();
  await until(() => chat.shown[0]?.[2] === "Hel");
  await chat.resumeStream();
  await first;

  assert.deepEqual(chat.shown, [["t", "assistant", "Hello"]]);
  assert.deepEqual([chat.status, received.length], ["ready", 2]);
});

test("stop after a resume cancels the turn", async (t) => {
  const { transport, received } = await transportTo(t, silentStream(RESUMED, says("Hel", "t:1-2")), CANCELED);
  const chat = new Chat(transport);

  const resuming = chat.resumeStream();
  await until(() => chat.shown[0]?.[2] === "Hel");
  await chat.stop();
  await resuming;
  await until(() => received.length === 2);

  assert.equal(received[1]?.url, "/v1/turns/t/cancel");
});

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
