import type { components } from "./openapi.js";

/** The body of every error answer of the API. `type` never changes; `detail` says what is wrong and what to do. */
export type Problem = components["schemas"]["ProblemBody"];

/** The API has refused a request. */
export class ProblemError extends Error {
  override readonly name = "ProblemError";

  constructor(
    readonly status: number,
    readonly problem: Problem,
    /** After how many seconds the same request may be sent again; undefined where that would not help. */
    readonly retryAfterSeconds: number | undefined,
  ) {
    super(`${problem.title}: ${problem.detail}`);
  }
}

/** The API has not answered a request, or has had no room for it, for a minute. `cause` is the last failure. */
export class UnreachableError extends Error {
  override readonly name = "UnreachableError";

  constructor(cause: unknown) {
    super("the API does not answer; submit again with the same key, or look at the turn later", { cause });
  }
}

/** Reads an error answer. A proxy between page and API answers without a problem: its status is all that is known then. */
export async function readProblem(response: Response): Promise<ProblemError> {
  const text = await response.text();
  const retryAfter = Number(response.headers.get("Retry-After") ?? Number.NaN);
  return new ProblemError(response.status, parse(text, response), Number.isFinite(retryAfter) ? retryAfter : undefined);
}

function parse(text: string, response: Response): Problem {
  if (response.headers.get("Content-Type")?.startsWith("application/problem+json")) {
    return JSON.parse(text) as Problem;
  }
  const title = `Status ${response.status}`;
  return { type: "about:blank", title, status: response.status, detail: "the answer is not one of Turnstile" };
}
