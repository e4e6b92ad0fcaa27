/** `sottovoce-client`: learn from everybody's taste, recommend on the device, let noise alone leave. */

export type { Outcome } from "./agreement.js";
export type { Item } from "./catalogue.js";
export { Client, type ClientOptions, type News } from "./client.js";
export type { State } from "./database.js";
export type { Manifest, Terms } from "./epoch.js";
export {
  ClosedError,
  LedgerError,
  PostponedError,
  ProtocolError,
  RefusedError,
  SettingsError,
  SottovoceError,
  StoreError,
  TermsError,
  UnavailableError,
  UntrustedError,
} from "./errors.js";
export type { PastRelease } from "./fetching.js";
export type { TouchedItem } from "./history.js";
export { type Amount, type Charge, epochsWithin, limitFor, type Price, spent } from "./ledger.js";
export type { Odds } from "./mechanism/base.js";
export type { Explanation, Told } from "./mechanism/registry.js";
export type { Matrix } from "./model.js";
export type { LeftDevice } from "./outbox.js";
export {
  type Guess,
  inFigures,
  inHundred,
  inShort,
  type Offer,
  type Promised,
  type Short,
  sentencesOf,
  shortOf,
  telling,
} from "./promise.js";
export type { ItemReason, Reason, Recommendation, TagReason } from "./recommending.js";
export type { Synced } from "./syncing.js";
export type { Tag, Tags, Traits } from "./tags.js";
export { tagsOf } from "./tags.js";
export type { Plan } from "./timing.js";
export { type Solution, scoreOf, solution, type WideModel, wideModel } from "./wide.js";
export type { WorkerName } from "./workers.js";
