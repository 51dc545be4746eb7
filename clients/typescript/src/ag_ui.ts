import { AbstractAgent, type AgentConfig, type BaseEvent, EventType, type RunAgentInput } from "@ag-ui/client";
import { Observable, type Subscriber } from "rxjs";

import type { Input, SubmitOptions, Turn, Turnstile } from "./index.js";

export interface TurnstileAgentConfig extends AgentConfig {
  client: Turnstile;
}

/** An event of the wire: each names what it begins or ends by an id. */
type Told = BaseEvent & { runId?: string; messageId?: string; toolCallId?: string };

/**
 * An agent of AG-UI whose runs are turns of Turnstile. Its thread is a session.
 *
 * `runAgent` submits the last message. Runs with the same `runId` are one turn. `connectAgent` follows the turns that are open, and
 * `abortRun` cancels the turn that runs. `forwardedProps.turnstile` may have fields of a submit, such as `queue`. The handler gets the
 * message, and neither `tools`, `context` nor `state`.
 */
export class TurnstileAgent extends AbstractAgent {
  private client: Turnstile;
  private turn: Promise<Turn> | undefined;

  constructor({ client, ...config }: TurnstileAgentConfig) {
    super(config);
    this.client = client;
  }

  override run(input: RunAgentInput): Observable<BaseEvent> {
    return this.tell(async (signal) => {
      const message = input.messages.at(-1);
      if (message === undefined) {
        throw new Error("there is no message to send");
      }
      const { turnstile: fields } = (input.forwardedProps ?? {}) as { turnstile?: SubmitOptions };
      // Not ended by the signal: a submit that is given up may have arrived, and nobody could cancel its turn.
      this.turn = this.client.session(input.threadId).submit(message.content as Input, { ...fields, key: input.runId });
      const { id } = await this.turn;
      const isLast = ({ data }: { data: string }) => isEnd(JSON.parse(data) as Told);
      return this.client.stream(`/v1/turns/${id}/events?as=ag-ui`, { isLast, signal });
    });
  }

  protected override connect(input: RunAgentInput): Observable<BaseEvent> {
    const path = `/v1/sessions/${encodeURIComponent(input.threadId)}/stream?as=ag-ui`;
    // The server says after which turn there is no other.
    return this.tell(async (signal) => this.client.stream(path, { isLast: () => false, signal }));
  }

  /** The run ends as the server says: with a RUN_ERROR whose `code` is `canceled`. */
  override abortRun(): void {
    this.turn?.then((turn) => turn.cancel()).catch(() => undefined);
  }

  override clone(): TurnstileAgent {
    const cloned = super.clone() as TurnstileAgent;
    cloned.client = this.client;
    return cloned;
  }

  private tell(open: (signal: AbortSignal) => Promise<AsyncIterable<{ data: string }>>): Observable<BaseEvent> {
    return new Observable((subscriber) => {
      const leaving = new AbortController();
      this.pass(open(leaving.signal), subscriber).then(
        () => subscriber.complete(),
        (error: unknown) => subscriber.error(error),
      );
      // Whoever does not read on has not cancelled the turn.
      return () => leaving.abort();
    });
  }

  private async pass(events: Promise<AsyncIterable<{ data: string }>>, subscriber: Subscriber<BaseEvent>): Promise<void> {
    const run = new RunningRun();
    for await (const { data } of await events) {
      const event = JSON.parse(data) as Told;
      if (event.type === EventType.RUN_STARTED) {
        this.turn = Promise.resolve(this.client.turn(event.runId ?? ""));
      }
      for (const passed of run.pass(event)) {
        subscriber.next(passed);
      }
    }
  }
}

const BEGINS = /^(TEXT_MESSAGE|REASONING|REASONING_MESSAGE|TOOL_CALL)_START$/;

function isEnd(event: Told): boolean {
  return event.type === EventType.RUN_FINISHED || event.type === EventType.RUN_ERROR;
}

/** After a break the server begins the run anew, with all messages. For `AbstractAgent` it goes on: it takes a run once. */
class RunningRun {
  private runs = false;
  /** What has begun and not ended, as the events that end it. */
  private open: Told[] = [];

  pass(event: Told): Told[] {
    if (event.type === EventType.RUN_STARTED && this.runs) {
      return this.open.splice(0).reverse();
    }
    this.runs = !isEnd(event);
    const { type, messageId, toolCallId } = event;
    if (BEGINS.test(type)) {
      const end = type.replace(/START$/, "END") as EventType;
      this.open.push({ type: end, ...(messageId !== undefined && { messageId }), ...(toolCallId !== undefined && { toolCallId }) });
    }
    this.open = this.open.filter((end) => end.type !== type || end.messageId !== messageId || end.toolCallId !== toolCallId);
    return [event];
  }
}
