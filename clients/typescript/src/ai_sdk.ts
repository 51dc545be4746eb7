import type { ChatTransport, UIMessage, UIMessageChunk } from "ai";

import type { Input, ServerEvent, SessionDetail, SubmitOptions, Turnstile } from "./index.js";

export interface TransportOptions<Message extends UIMessage> {
  client: Turnstile;
  /** What the handler gets of a message. Left out: its text, or `{parts}` if it has more than text. */
  toInput?: (message: Message) => Input;
}

type Sent<Message extends UIMessage> = Parameters<ChatTransport<Message>["sendMessages"]>[0];
type Resumed<Message extends UIMessage> = Parameters<ChatTransport<Message>["reconnectToStream"]>[0];

/**
 * Lets `useChat` of the AI SDK talk to Turnstile. A chat is a session: its id is the session's.
 *
 * Each message is a turn. `body` of `sendMessage` may have fields of a submit, such as `queue`. `stop` cancels the turn.
 */
export class TurnstileChatTransport<Message extends UIMessage = UIMessage> implements ChatTransport<Message> {
  private readonly client: Turnstile;
  private readonly toInput: (message: Message) => Input;
  private readonly resumes = new Map<string, symbol>();
  /** The open turns that `load` has found, by their chats, without those that were resumed since. */
  private readonly found = new Map<string, string[]>();

  constructor({ client, toInput = inputOf }: TransportOptions<Message>) {
    this.client = client;
    this.toInput = toInput;
  }

  /** What was said in the chat, for `messages` of `useChat`. With `resume`, the replies that are still missing follow. */
  async load(chatId: string): Promise<Message[]> {
    const session = await this.client.session(chatId).read({ include: ["open", "failed", "canceled"], limit: 100 });
    const open = session?.open?.filter((turn) => turn.seq !== null) ?? [];
    this.found.set(chatId, open.map((turn) => turn.id));
    return session === undefined ? [] : messagesOf<Message>(session, open);
  }

  /** Submits the last message, and returns the stream of its turn. */
  async sendMessages({ chatId, messages, abortSignal, body }: Sent<Message>): Promise<ReadableStream<UIMessageChunk>> {
    const message = messages.at(-1);
    if (message === undefined) {
      throw new Error("there is no message to send");
    }
    // Without the signal: a submit that is given up may have arrived, and then nobody would stop its turn.
    const submitting = this.client.session(chatId).submit(this.toInput(message), body as SubmitOptions | undefined);
    abortSignal?.addEventListener("abort", () => {
      submitting.then((turn) => turn.cancel()).catch(() => undefined);
    });
    const turn = await untilAborted(submitting, abortSignal);
    return chunksOf(this.follow(`/v1/turns/${turn.id}/events`, abortSignal));
  }

  /** The stream of an open turn, from its start; null if no turn is open. */
  async reconnectToStream({ chatId, abortSignal }: Resumed<Message>): Promise<ReadableStream<UIMessageChunk> | null> {
    const own = Symbol(chatId);
    this.resumes.set(chatId, own);
    // A turn that was open when the chat was loaded may have ended since: its own stream has the reply all the same.
    const turnId = this.found.get(chatId)?.[0];
    const path = turnId === undefined ? `/v1/sessions/${encodeURIComponent(chatId)}/stream` : `/v1/turns/${turnId}/events`;
    const events = this.follow(path, abortSignal);
    const first = await events.next();
    if (first.done) {
      return null;
    }
    const resumed = (JSON.parse(first.value.data) as { messageId: string }).messageId;
    this.found.set(chatId, this.found.get(chatId)?.filter((id) => id !== resumed) ?? []);
    abortSignal?.addEventListener("abort", () => {
      // `useChat` aborts a resume also to begin another one, at once. That stops nothing.
      queueMicrotask(() => {
        if (this.resumes.get(chatId) === own) {
          this.client.turn(resumed).cancel().catch(() => undefined);
        }
      });
    });
    return chunksOf(events, first.value);
  }

  private follow(path: string, signal: AbortSignal | undefined): AsyncGenerator<ServerEvent, void, undefined> {
    return this.client.stream(`${path}?as=ai-sdk`, { isLast: ({ data }) => data === DONE, signal });
  }
}

/** What the AI SDK's stream ends with. */
const DONE = "[DONE]";

/** The messages of the answered turns, and the inputs of the others, in the order of the session. */
function messagesOf<Message extends UIMessage>(session: SessionDetail, open: NonNullable<SessionDetail["open"]>): Message[] {
  const unanswered = [...(session.failed ?? []), ...(session.canceled ?? []), ...open];
  const inputs = unanswered.map((turn) => ({ turn_id: turn.id, seq: turn.seq ?? 0, role: "user", content: turn.input }));
  return [...session.messages, ...inputs]
    .sort((one, other) => one.seq - other.seq)
    .map(({ turn_id, role, content }) => ({
      // The stream of a turn gives its reply the turn's id.
      id: role === "assistant" ? turn_id : `${turn_id}:${role}`,
      role,
      parts: partsOf(content),
    })) as Message[];
}

/** The reverse of `inputOf`. */
function partsOf(content: unknown): UIMessage["parts"] {
  if (content !== null && typeof content === "object" && "parts" in content && Array.isArray(content.parts)) {
    return content.parts as UIMessage["parts"];
  }
  return [{ type: "text", text: typeof content === "string" ? content : JSON.stringify(content) }];
}

function inputOf(message: UIMessage): Input {
  const texts = message.parts.map((part) => (part.type === "text" ? part.text : undefined));
  return texts.includes(undefined) ? { parts: message.parts } : texts.join("");
}

function chunksOf(events: AsyncGenerator<ServerEvent, void, undefined>, first?: ServerEvent): ReadableStream<UIMessageChunk> {
  return new ReadableStream<UIMessageChunk>({
    start(controller) {
      if (first !== undefined) {
        controller.enqueue(JSON.parse(first.data) as UIMessageChunk);
      }
    },
    async pull(controller) {
      const { value } = await events.next();
      if (value === undefined || value.data === DONE) {
        controller.close();
      } else {
        controller.enqueue(JSON.parse(value.data) as UIMessageChunk);
      }
    },
    async cancel() {
      await events.return();
    },
  });
}

function untilAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  return new Promise((resolve, reject) => {
    signal?.addEventListener("abort", () => reject(signal.reason));
    promise.then(resolve, reject);
  });
}
