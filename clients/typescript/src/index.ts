export { Turnstile } from "./client.js";
export type { ConnectionOptions } from "./connection.js";
export { type TurnError, type TurnEvent, type TurnStatus } from "./events.js";
export type { components, paths } from "./openapi.js";
export { type Problem, ProblemError, UnreachableError } from "./problems.js";
export type { ServerEvent, StreamOptions } from "./resumed_stream.js";
export {
  type FollowOptions,
  type Input,
  type MessagePage,
  type PageOptions,
  type Part,
  type ReadOptions,
  Session,
  type SessionDetail,
  type SessionProgress,
  type SubmitOptions,
  type TurnPage,
} from "./session.js";
export type { GetToken, Token } from "./token.js";
export { type CancelAnswer, type Progress, type Signalled, Turn, type TurnDetail } from "./turn.js";
