import { type Api, answerOf } from "./api.js";
import { isEnd, readTurnEvent, type TurnEvent, textAfter } from "./events.js";
import type { components } from "./openapi.js";
import { ProblemError } from "./problems.js";
import { resumedStream } from "./resumed_stream.js";
import { type Signalled, Turn } from "./turn.js";

export type SessionDetail = components["schemas"]["SessionDetail"];
export type MessagePage = components["schemas"]["MessagePage"];
export type TurnPage = components["schemas"]["TurnPage"];
type TurnRequest = components["schemas"]["TurnRequest"];

/** What a turn says: text, or a JSON value that the handler understands. */
export type Input = string | number | boolean | object;

export interface SubmitOptions extends Omit<TurnRequest, "input">, Signalled {
  /** Submits with the same key are one turn, for at least a day. Left out: a random one, so each call is a turn of its own. */
  key?: string;
}

export interface ReadOptions extends Signalled {
  include?: Part[];
  /** 1 to 100 messages; 20 if left out. */
  limit?: number;
}

export interface FollowOptions extends Signalled {
  since?: SessionDetail | undefined;
}

export interface PageOptions extends Signalled {
  /** 1 to 100 entries; 20 if left out. */
  limit?: number;
  /** `next_cursor` of the page before. */
  cursor?: string;
}

/** What a read of a session has besides its messages. */
export type Part = "open" | "failed" | "canceled" | "partial";

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
   * What a page shows after a reload, read at one moment: the last messages, and the turns that `include` names. Undefined: no
   * turn was submitted to the session yet.
   */
  async read({ include = [], limit, signal }: ReadOptions = {}): Promise<SessionDetail | undefined> {
    const query = { ...(include.length > 0 && { include: include.join(",") }), ...(limit && { limit }) };
    const params = { path: { session_id: this.id }, query };
    try {
      return answerOf(await this.api.calls.GET("/v1/sessions/{session_id}", { params, ...(signal && { signal }) }));
    } catch (error) {
      if (error instanceof ProblemError && error.status === 404) {
        return undefined;
      }
      throw error;
    }
  }

  /**
   * The events of the session's turns, one turn after the other: of those that are open, and of all that are submitted later, by
   * whomever. It ends only by `signal`.
   *
   * `since`: what `read` has returned. Nothing that happens after that read is left out.
   */
  async *follow({ since, signal }: FollowOptions = {}): AsyncGenerator<SessionProgress, void, undefined> {
    const place = placeAfter(since);
    const after = place === undefined ? "" : `&starting_after=${place.turnId}:0-0`;
    const path = `/v1/sessions/${encodeURIComponent(this.id)}/stream?wait=true${after}`;
    let known = place?.isKnown ? place.turnId : undefined;
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
      if (turnId !== known) {
        yield { ...event, turnId, text };
      } else if (ended) {
        known = undefined;
      }
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

/** The turn with which a stream has to begin, and whether the page has all of it already. */
function placeAfter(since: SessionDetail | undefined): { turnId: string; isKnown: boolean } | undefined {
  const head = since?.open?.find((turn) => turn.seq !== null);
  if (head !== undefined) {
    return { turnId: head.id, isKnown: false };
  }
  const turns = [...(since?.failed ?? []), ...(since?.canceled ?? [])].map(({ id, seq }) => ({ turn_id: id, seq: seq ?? 0 }));
  const [last] = [...(since?.messages ?? []), ...turns].sort((one, other) => other.seq - one.seq);
  return last && { turnId: last.turn_id, isKnown: true };
}

type TurnStatusText = components["schemas"]["TurnStatus"];

/** `crypto.randomUUID` is missing on pages without https. */
function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
