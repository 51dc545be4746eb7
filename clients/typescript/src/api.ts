import createClient, { type Client } from "openapi-fetch";

import { Connection, type ConnectionOptions } from "./connection.js";
import type { paths } from "./openapi.js";

/** The calls of the API, with the types of its OpenAPI document. A call throws ProblemError or UnreachableError. */
export class Api {
  readonly connection: Connection;
  readonly calls: Client<paths>;

  constructor(options: ConnectionOptions) {
    this.connection = new Connection(options);
    this.calls = createClient<paths>({
      baseUrl: this.connection.url,
      fetch: (request) => this.connection.send(request, waitOf(request)),
    });
  }
}

/** What a call has returned: `Connection.send` throws for any other answer. */
export function answerOf<Data>(answer: { data?: Data }): Data {
  return answer.data as Data;
}

/** How long the request asks the server to wait, in milliseconds. */
function waitOf(request: Request): number {
  return Number(new URL(request.url).searchParams.get("wait") ?? 0) * 1000;
}
