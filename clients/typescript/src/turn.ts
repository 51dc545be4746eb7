import { type Api, answerOf } from "./api.js";
import { endOf, isEnd, readTurnEvent, type TurnEvent, textAfter } from "./events.js";
import type { components } from "./openapi.js";
import { resumedStream } from "./resumed_stream.js";

export type TurnDetail = components["schemas"]["TurnDetail"];
export type CancelAnswer = components["schemas"]["CancelAnswer"];

/** An event with the text of the reply so far. */
export type Progress = TurnEvent & { text: string };

export interface Signalled {
  /** Ends the call. The turn goes on: `cancel` stops it. */
  signal?: AbortSignal;
}

/** How long one request waits for the end. The server answers earlier if its own limit is lower. */
const WAIT_SECONDS = 60;

/** A turn that was submitted. */
export class Turn {
  constructor(
    private readonly api: Api,
    readonly id: string,
  ) {}

  /** The turn as it is now. */
  async read({ signal }: Signalled = {}): Promise<TurnDetail> {
    return await this.get(0, signal);
  }

  /** The turn, once it is SUCCEEDED, FAILED or CANCELED. */
  async wait({ signal }: Signalled = {}): Promise<TurnDetail> {
    for (;;) {
      const turn = await this.get(WAIT_SECONDS, signal);
      if (turn.finished_at !== null) {
        return turn;
      }
    }
  }

  /**
   * The turn from its first event to its one end (`end` or `error`), whatever happens to the connection meanwhile.
   *
   * Render `text` of each event: it is the whole text so far, also after a new attempt has begun. Throws ProblemError and the
   * signal's reason.
   */
  async *follow({ signal }: Signalled = {}): AsyncGenerator<Progress, void, undefined> {
    let text = "";
    let begun = false;
    const path = `/v1/turns/${this.id}/events`;
    for await (const sent of resumedStream(this.api.connection, path, { isLast: isEnd, signal })) {
      const event = readTurnEvent(sent);
      // Each connection begins with `metadata`.
      if (event === undefined || (event.event === "metadata" && begun)) {
        continue;
      }
      begun = true;
      text = textAfter(text, event);
      yield { ...event, text };
      if (isEnd(event)) {
        return;
      }
    }
    // The server says that the end was sent, and it has not arrived: the turn has it.
    const end = endOf(await this.wait({ ...(signal && { signal }) }));
    yield { ...end, text: textAfter(text, end) };
  }

  /** Stops the turn. One that waits ends at once, one that runs is asked to; one that has ended does not change. */
  async cancel({ signal }: Signalled = {}): Promise<CancelAnswer> {
    const path = { turn_id: this.id };
    return answerOf(
      await this.api.calls.POST("/v1/turns/{turn_id}/cancel", { params: { path }, ...(signal && { signal }) }),
    );
  }

  private async get(wait: number, signal: AbortSignal | undefined): Promise<TurnDetail> {
    const params = { path: { turn_id: this.id }, ...(wait ? { query: { wait } } : {}) };
    return answerOf(await this.api.calls.GET("/v1/turns/{turn_id}", { params, ...(signal && { signal }) }));
  }
}
