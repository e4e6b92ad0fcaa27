/** `sottovoce-client`: learn from everybody's taste, recommend on the device, let noise alone leave. */

export { TermsError, turnsLeft } from "./agreement.js";
export { type Amount, type Charge, epochsWithin, limitFor, type Price, spent } from "./amount.js";
export type { Catalogue, Item } from "./catalogue.js";
export { Client, type Status, type SyncOptions } from "./client.js";
export {
  ClosedError,
  LedgerError,
  PostponedError,
  ProtocolError,
  RefusedError,
  SettingsError,
  SottovoceError,
  StoreError,
  UnavailableError,
  UntrustedError,
} from "./errors.js";
export type { Manifest } from "./manifest.js";
export type { Odds } from "./mechanism/base.js";
export { type Explanation, explain, type Told } from "./mechanism/index.js";
export { type ClientOptions, type Sleep, sleepFor } from "./options.js";
export type { LeftDevice } from "./outbox.js";
export type { Outcome } from "./outcome.js";
export { type Promised, promiseOf, promiseSentences } from "./promise.js";
export type { ItemReason, Reason, Recommendation, TagReason } from "./recommending.js";
export type { State } from "./rows.js";
export type { Synced } from "./syncing.js";
export { type Tag, type Tags, type Traits, tagsOf } from "./tags.js";
export type { Terms } from "./terms.js";
export { JITTER, type Plan } from "./timing.js";
export type { Matrix } from "./user.js";
export { type Solution, scoreOf, solution, type WideModel, wideModel } from "./wide.js";
export type { Entropy, Words } from "./words.js";
