/** A token for a page as `POST /v1/tokens` returns it, or the text of a token or a key alone. */
export type Token = string | { token: string; expires_at: string };

/** Asks your back end for a token. It is called again shortly before the last token ends, and when the API refuses it. */
export type GetToken = () => Token | Promise<Token>;

/** Requests that are under way when a token ends would be refused. */
const EARLY_MS = 30_000;

/** The token that all requests of a client show. */
export class TokenKeeper {
  private kept: { text: string; until: number } | undefined;
  private asking: Promise<void> | undefined;

  constructor(private readonly getToken: GetToken | undefined) {}

  /** The text for the Authorization header; undefined if the client shows none. `refused`: this text was answered with 401. */
  async give(refused?: string): Promise<string | undefined> {
    if (this.getToken === undefined) {
      return undefined;
    }
    if (this.kept === undefined || this.kept.text === refused || Date.now() >= this.kept.until) {
      // Many requests find the token ended in the same moment: one call serves all of them.
      this.asking ??= this.ask(this.getToken).finally(() => {
        this.asking = undefined;
      });
      await this.asking;
    }
    return this.kept?.text;
  }

  private async ask(getToken: GetToken): Promise<void> {
    const token = await getToken();
    this.kept =
      typeof token === "string"
        ? { text: token, until: Number.POSITIVE_INFINITY }
        : { text: token.token, until: Date.parse(token.expires_at) - EARLY_MS };
  }
}
