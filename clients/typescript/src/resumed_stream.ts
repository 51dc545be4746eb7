import { createParser } from "eventsource-parser";

import { type Connection, isPassing, retryAfterOf } from "./connection.js";
import { pause, pauseBefore } from "./pauses.js";

/** One server-sent event as it came. */
export interface ServerEvent {
  event?: string | undefined;
  id?: string | undefined;
  data: string;
}

export interface StreamOptions {
  /** Whether the server sends nothing after this event. */
  isLast: (event: ServerEvent) => boolean;
  signal?: AbortSignal | undefined;
  /** After how long without a byte the connection counts as dead. The API sends a heartbeat every 15 seconds. */
  silenceMs?: number;
}

/**
 * The events of a stream, each once, over as many connections as it takes. After a break it goes on behind the last event
 * that came whole.
 *
 * Ends after the last event, or when the server has none (204). Throws ProblemError for a refusal that no repeat would change,
 * and the signal's reason.
 */
export async function* resumedStream(
  connection: Connection,
  path: string,
  { isLast, signal, silenceMs = 45_000 }: StreamOptions,
): AsyncGenerator<ServerEvent, void, undefined> {
  let last: string | undefined;
  for (let failures = 1; ; failures += 1) {
    let retryAfter: number | undefined;
    try {
      const response = await connection.open(request(connection.url + path, last, signal));
      if (response.status === 204) {
        await response.body?.cancel();
        return;
      }
      for await (const event of eventsOf(response, silenceMs)) {
        if (event.id !== undefined) {
          last = event.id;
          failures = 0;
        }
        yield event;
        if (isLast(event)) {
          return;
        }
      }
    } catch (error) {
      signal?.throwIfAborted();
      if (!isPassing(error)) {
        throw error;
      }
      retryAfter = retryAfterOf(error);
    }
    // Without an error: the server closes its streams before it stops, and another process has the rest.
    await pause(pauseBefore(Math.max(failures, 1), Math.random(), retryAfter), signal);
  }
}

function request(url: string, last: string | undefined, signal: AbortSignal | undefined): Request {
  const headers = { Accept: "text/event-stream", ...(last === undefined ? {} : { "Last-Event-ID": last }) };
  return new Request(url, { headers, ...(signal && { signal }), cache: "no-store" });
}

/** The events of one connection, until it ends. An event that was cut off does not count. */
async function* eventsOf(response: Response, silenceMs: number): AsyncGenerator<ServerEvent, void, undefined> {
  if (response.body === null || !response.headers.get("Content-Type")?.startsWith("text/event-stream")) {
    throw new TypeError("the answer is not a stream of events; is there a proxy between this page and the API?");
  }
  const arrived: ServerEvent[] = [];
  const parser = createParser({ onEvent: (event) => arrived.push(event) });
  const decoder = new TextDecoder();
  const reader = response.body.getReader();
  try {
    for (;;) {
      const { done, value } = await inTime(reader.read(), silenceMs);
      if (done) {
        return;
      }
      parser.feed(decoder.decode(value, { stream: true }));
      yield* arrived.splice(0);
    }
  } finally {
    // Not awaited: a connection that is dead does not answer to this either.
    reader.cancel().catch(() => undefined);
  }
}

/** A network that is gone closes nothing: only the missing heartbeats show it. */
async function inTime<T>(read: Promise<T>, silenceMs: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new DOMException("no heartbeat", "TimeoutError")), silenceMs);
  });
  try {
    return await Promise.race([read, silence]);
  } finally {
    clearTimeout(timer);
  }
}
