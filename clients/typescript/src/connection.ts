import { pause, pauseBefore } from "./pauses.js";
import { ProblemError, readProblem, UnreachableError } from "./problems.js";
import { type GetToken, TokenKeeper } from "./token.js";

export interface ConnectionOptions {
  /** Where the API is, such as `https://turnstile.example`. */
  url: string;
  /** Returns the token, or the key, that requests show. Left out: an API at the loopback address that has no keys. */
  getToken?: GetToken;
  /** In place of the global `fetch`. */
  fetch?: (request: Request, init?: RequestInit) => Promise<Response>;
}

/** How long a request is repeated before it fails. */
const PATIENCE_MS = 60_000;
/** A connection that says nothing for so long is dead, even if nobody has closed it. */
const ANSWER_MS = 30_000;

const PASSING = new Set([408, 429, 500, 502, 503, 504]);

/** Sends requests with a token, and repeats those that a passing trouble has kept from being answered. */
export class Connection {
  readonly url: string;
  private readonly tokens: TokenKeeper;
  private readonly fetch: NonNullable<ConnectionOptions["fetch"]>;

  constructor(options: ConnectionOptions) {
    this.url = options.url.replace(/\/+$/, "");
    this.tokens = new TokenKeeper(options.getToken);
    this.fetch = options.fetch ?? ((request, init) => globalThis.fetch(request, init));
  }

  /**
   * The response, whole. Repeats the request for a minute, so it must be one that may be repeated. `waitMs` is how long the
   * server may wait before it answers.
   *
   * Throws ProblemError, UnreachableError, or the reason of the request's signal.
   */
  async send(request: Request, waitMs = 0): Promise<Response> {
    const deadline = Date.now() + PATIENCE_MS + waitMs;
    for (let failures = 1; ; failures += 1) {
      try {
        const signal = AbortSignal.any([request.signal, AbortSignal.timeout(ANSWER_MS + waitMs)]);
        const response = await this.attempt(request, signal);
        // Here, so that a connection that breaks within the body counts as a failure, too.
        return new Response(await response.arrayBuffer(), response);
      } catch (error) {
        request.signal.throwIfAborted();
        const milliseconds = pauseBefore(failures, Math.random(), retryAfterOf(error));
        const inTime = Date.now() + milliseconds < deadline;
        if (!isPassing(error) || (!inTime && error instanceof ProblemError)) {
          throw error;
        }
        if (!inTime) {
          throw new UnreachableError(error);
        }
        await pause(milliseconds, request.signal);
      }
    }
  }

  /** One try, whose body may go on for ever. Throws ProblemError for an error answer, and what `fetch` throws. */
  async open(request: Request): Promise<Response> {
    const silence = new AbortController();
    const timer = setTimeout(() => silence.abort(new DOMException("no answer", "TimeoutError")), ANSWER_MS);
    try {
      return await this.attempt(request, AbortSignal.any([request.signal, silence.signal]));
    } finally {
      clearTimeout(timer);
    }
  }

  private async attempt(request: Request, signal: AbortSignal): Promise<Response> {
    const token = await this.tokens.give();
    let response = await this.show(request, token, signal);
    if (response.status === 401 && token !== undefined) {
      await response.body?.cancel();
      response = await this.show(request, await this.tokens.give(token), signal);
    }
    if (!response.ok) {
      throw await readProblem(response);
    }
    return response;
  }

  private async show(request: Request, token: string | undefined, signal: AbortSignal): Promise<Response> {
    const shown = request.clone();
    if (token !== undefined) {
      shown.headers.set("Authorization", `Bearer ${token}`);
    }
    return await this.fetch(shown, { signal });
  }
}

/** Whether the same request may succeed later. `fetch` throws a TypeError for a connection that was refused or broke. */
export function isPassing(error: unknown): boolean {
  if (error instanceof ProblemError) {
    // The turns that are open have to end first, which may take hours.
    return PASSING.has(error.status) && error.problem.type !== "/problems/too-many-open-turns";
  }
  return error instanceof TypeError || (error instanceof DOMException && error.name === "TimeoutError");
}

/** After how many seconds the server asks to come back, if it does. */
export function retryAfterOf(error: unknown): number | undefined {
  return error instanceof ProblemError ? error.retryAfterSeconds : undefined;
}
