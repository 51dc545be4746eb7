import { type Api, answerOf } from "./api.js";
import { isEnd, readTurnEvent, type TurnEvent, textAfter } from "./events.js";
import type { components } from "./openapi.js";
import { resumedStream } from "./resumed_stream.js";
import { type Signalled, Turn } from "./turn.js";

export type MessagePage = components["schemas"]["MessagePage"];
export type TurnPage = components["schemas"]["TurnPage"];
type TurnRequest = components["schemas"]["TurnRequest"];

/** What a turn says: text, or a JSON value that the handler understands. */
export type Input = string | number | boolean | object;

export interface SubmitOptions extends Omit<TurnRequest, "input">, Signalled {
  /** Submits with the same key are one turn, for at least a day. Left out: a random one, so each call is a turn of its own. */
  key?: string;
}

export interface PageOptions extends Signalled {
  /** 1 to 100 entries; 20 if left out. */
  limit?: number;
  /** `next_cursor` of the page before. */
  cursor?: string;
}

/** An event of one of the session's turns, with the text of that turn's reply so far. */
export type SessionProgress = TurnEvent & { turnId: string; text: string };

/** A conversation. */
export class Session {
  constructor(
    private readonly api: Api,
    readonly id: string,
  ) {}

  /**
   * Submits a turn. A request whose answer got lost is repeated with the same key for a minute, and remains one turn.
   *
   * Throws ProblemError, UnreachableError, and the signal's reason. After the last two the turn may exist: submit again with
   * the same `key` to find out.
   */
  async submit(input: Input, { key = randomKey(), signal, ...fields }: SubmitOptions = {}): Promise<Turn> {
    const params = { path: { session_id: this.id }, header: { "Idempotency-Key": key } };
    const body = { ...fields, input: input as TurnRequest["input"] };
    const answer = await this.api.calls.POST("/v1/sessions/{session_id}/turns", { params, body, ...(signal && { signal }) });
    return new Turn(this.api, answerOf(answer).id);
  }

  /**
   * The events of the session's turns, one turn after the other: of those that are open, and of all that are submitted later, by
   * whomever. It ends only by `signal`.
   */
  async *follow({ signal }: Signalled = {}): AsyncGenerator<SessionProgress, void, undefined> {
    const path = `/v1/sessions/${encodeURIComponent(this.id)}/stream?wait=true`;
    let turnId = "";
    let text = "";
    let ended = true;
    for await (const sent of resumedStream(this.api.connection, path, { isLast: () => false, signal })) {
      const event = readTurnEvent(sent);
      if (event === undefined) {
        continue;
      }
      if (event.event === "metadata") {
        // Each connection begins with `metadata`, also in the middle of a turn.
        if (event.data.turn_id === turnId && !ended) {
          continue;
        }
        turnId = event.data.turn_id;
        text = "";
      }
      ended = isEnd(event);
      text = textAfter(text, event);
      yield { ...event, turnId, text };
    }
  }

  /** The messages of the answered turns, oldest first. */
  async messages({ signal, ...query }: PageOptions = {}): Promise<MessagePage> {
    const params = { path: { session_id: this.id }, query };
    return answerOf(await this.api.calls.GET("/v1/sessions/{session_id}/messages", { params, ...(signal && { signal }) }));
  }

  /** The turns, newest first, without their replies. */
  async turns({ signal, ...query }: PageOptions & { status?: TurnStatusText } = {}): Promise<TurnPage> {
    const params = { path: { session_id: this.id }, query };
    return answerOf(await this.api.calls.GET("/v1/sessions/{session_id}/turns", { params, ...(signal && { signal }) }));
  }
}

type TurnStatusText = components["schemas"]["TurnStatus"];

/** `crypto.randomUUID` is missing on pages without https. */
function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
