import { Api } from "./api.js";
import type { ConnectionOptions } from "./connection.js";
import { resumedStream, type ServerEvent, type StreamOptions } from "./resumed_stream.js";
import { Session } from "./session.js";
import { Turn } from "./turn.js";

/**
 * A client of Turnstile, for pages and for Node.
 *
 *     const turnstile = new Turnstile({ url, getToken });
 *     const turn = await turnstile.session("chat-1").submit("Good morning");
 *     for await (const { text } of turn.follow()) show(text);
 */
export class Turnstile {
  /** The calls of the API that this class has no method for, with the client's token and repeats. */
  readonly calls: Api["calls"];
  private readonly api: Api;

  constructor(options: ConnectionOptions) {
    this.api = new Api(options);
    this.calls = this.api.calls;
  }

  /** A session by its id; it need not exist yet. */
  session(id: string): Session {
    return new Session(this.api, id);
  }

  /** A turn by its id. */
  turn(id: string): Turn {
    return new Turn(this.api, id);
  }

  /** The events of any stream of the API, each once, over as many connections as it takes. `path` begins with `/v1`. */
  stream(path: string, options: StreamOptions): AsyncGenerator<ServerEvent, void, undefined> {
    return resumedStream(this.api.connection, path, options);
  }
}
