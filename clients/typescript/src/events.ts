import type { components } from "./openapi.js";
import type { ServerEvent } from "./resumed_stream.js";

export type TurnStatus = components["schemas"]["TurnStatus"];
export type TurnError = components["schemas"]["TurnError"];

interface Events {
  /** The first event. */
  metadata: { turn_id: string; session_id: string; status: TurnStatus; attempt: number };
  /** RUNNING: a new attempt begins, and its text starts again. PENDING: the turn waits, because of `outcome`. */
  status: { status: TurnStatus; attempt: number; outcome?: string; after_seconds?: number };
  /** More text. */
  delta: { text: string };
  /** What the handler has emitted besides text. */
  custom: unknown;
  /** The whole text so far. It replaces all text before it. */
  reset: { text: string; attempt: number };
  /** The last event of a turn that is SUCCEEDED (`output`) or CANCELED (`reason`). */
  end: { turn_id: string; status: TurnStatus; output?: unknown; reason?: string | null };
  /** The last event of a turn that is FAILED. */
  error: { turn_id: string; status: TurnStatus; error: TurnError };
}

/** An event of a turn: `event` says which, `data` is as the API sends it. */
export type TurnEvent = { [Name in keyof Events]: { event: Name; data: Events[Name] } }[keyof Events];

const NAMES: ReadonlySet<string> = new Set<keyof Events>([
  "metadata",
  "status",
  "delta",
  "custom",
  "reset",
  "end",
  "error",
]);

/** Reads an event of a turn; undefined for one that a newer server sends, and this version does not know. */
export function readTurnEvent(sent: ServerEvent): TurnEvent | undefined {
  if (sent.event === undefined || !NAMES.has(sent.event)) {
    return undefined;
  }
  return { event: sent.event, data: JSON.parse(sent.data) } as TurnEvent;
}

/** Whether no event follows. */
export function isEnd(event: { event?: string | undefined }): boolean {
  return event.event === "end" || event.event === "error";
}

/** The text of the reply after an event, if it was `text` before. */
export function textAfter(text: string, event: TurnEvent): string {
  switch (event.event) {
    case "delta":
      return text + event.data.text;
    case "reset":
      return event.data.text;
    case "status":
      return event.data.status === "RUNNING" ? "" : text;
    case "end":
      return typeof event.data.output === "string" ? event.data.output : text;
    case "metadata":
    case "custom":
    case "error":
      return text;
    default:
      return event satisfies never;
  }
}

/** The last event, made from a turn that has ended. */
export function endOf(turn: components["schemas"]["TurnDetail"]): TurnEvent {
  const { id: turn_id, status } = turn;
  if (status === "FAILED" && turn.error !== null) {
    return { event: "error", data: { turn_id, status, error: turn.error } };
  }
  const { output, cancel_reason: reason } = turn;
  return { event: "end", data: { turn_id, status, ...(status === "SUCCEEDED" ? { output } : { reason }) } };
}
