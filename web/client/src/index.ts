/** `sottovoce-client`: learn from everybody's taste, recommend on the device, send only noise. */

export type { Outcome } from "./agreement.js";
export type { Item } from "./catalogue.js";
export { Client, type ClientOptions, type News } from "./client.js";
export type { BatchState } from "./database.js";
export { hasModel, type Manifest, type Provenance, type Terms } from "./epoch.js";
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
export {
  type Amount,
  type Charge,
  computeLimit,
  countAffordableEpochs,
  type Price,
  sumCharges,
} from "./ledger.js";
export type { Odds } from "./mechanism/base.js";
export { asksForNames, type ReadableReport } from "./mechanism/registry.js";
export type { Matrix } from "./model.js";
export type { LeftDevice } from "./outbox.js";
export {
  computeSummary,
  describeFigures,
  describeGuess,
  formatGuessChance,
  formatSummary,
  type GuessChance,
  type Offer,
  type PromiseFigures,
  type PromiseSummary,
  summarize,
} from "./promise.js";
export type { ItemReason, NowReason, Reason, Recommendation, TagReason } from "./recommending.js";
export type { SyncResult } from "./syncing.js";
export type { Band, ItemTags, Tag, TagColumns } from "./tags.js";
export { buildTags } from "./tags.js";
export type { Plan } from "./timing.js";
export {
  buildWideModel,
  computeScore,
  dropFactors,
  solveWideVector,
  type UserSolution,
  type WideModel,
} from "./wide.js";
