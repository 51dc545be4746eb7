import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import type { TestContext } from "node:test";

/** A request as the server has received it. */
export interface Received {
  method: string;
  url: string;
  headers: IncomingMessage["headers"];
  body: string;
}

/** What the server does with one request. */
export type Answer = (response: ServerResponse) => void;

/** A server that answers the first request with the first answer, and so on; the last answer serves all that follow. */
export async function fakeApi(test: TestContext, ...answers: Answer[]): Promise<{ url: string; received: Received[] }> {
  const received: Received[] = [];
  const server = createServer(async (request, response) => {
    const { method = "", url = "", headers } = request;
    received.push({ method, url, headers, body: await text(request) });
    answers[Math.min(received.length, answers.length) - 1]?.(response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  test.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received };
}

export function json(body: unknown, status = 200): Answer {
  return (response) => response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
}

export function problem(status: number, type: string, retryAfter?: number): Answer {
  const headers = {
    "Content-Type": "application/problem+json",
    ...(retryAfter === undefined ? {} : { "Retry-After": String(retryAfter) }),
  };
  const body = { type: `/problems/${type}`, title: type, status, detail: "what to do" };
  return (response) => response.writeHead(status, headers).end(JSON.stringify(body));
}

/** The connection ends before anything was answered. */
export const breaks: Answer = (response) => response.destroy();

/** These texts as a stream of events that ends properly. */
export function stream(...events: string[]): Answer {
  return (response) => begin(response, events).end();
}

/** These texts, and then the connection breaks. */
export function cutStream(...events: string[]): Answer {
  // Not before all is sent: what `destroy` finds in the buffer is lost.
  return (response) => begin(response, events).write("\n", () => setTimeout(() => response.destroy(), 20));
}

/** These texts, and then nothing more on an open connection. */
export function silentStream(...events: string[]): Answer {
  return (response) => void begin(response, events);
}

function begin(response: ServerResponse, events: string[]): ServerResponse {
  response.writeHead(200, { "Content-Type": "text/event-stream; charset=utf-8" });
  response.write(events.join(""));
  return response;
}

/** One event as the API writes it. */
export function event(name: string, data: unknown, id?: string): string {
  return `${id === undefined ? "" : `id: ${id}\n`}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}
