/**
 * Decides when a device takes part in an epoch, sends its batch and requests a token.
 *
 * These decisions depend on public numbers, the ledger, a clock and random draws. They are made
 * before the history is read.
 *
 * Making a batch takes longer for a longer history. So the moment of sending is late enough for
 * every history, and a batch that is ready earlier waits for it.
 */

import type { Entropy } from "./coin.js";
import { endOfEpoch, isOpen, type Manifest } from "./epoch.js";

/**
 * Length in seconds of the interval from which the moment of sending is drawn.
 *
 * An installed client uses an hour, which hides when its device was started. A page uses less,
 * because a visit is short and its requests show the proxy the time of the visit anyway.
 */
export const JITTER_SECONDS = 5;
/**
 * Upper limit, in seconds, on the wait for the moment of sending. No model has a longer lead (see
 * `computeLead`). A longer wait means that the system clock was set back after the batch was made.
 */
export const MAX_LEAD_SECONDS = 1_200;
/** In this many seconds before a token request, the page finds out whether somebody is logged in. */
export const TOKEN_LEAD_SECONDS = 5;
/**
 * Longest time in seconds for an answer to a token request. A later answer is not used.
 *
 * If it were used, the proxy could delay one answer until all other tokens are spent. Then the
 * proxy would know from whom the last batch comes.
 */
export const MAX_TOKEN_WAIT_SECONDS = 60;
/** Size of the random id of a batch. */
export const BATCH_ID_BYTES = 16;

/** The random decision whether a device takes part in an epoch, and when it sends. */
export interface Plan {
  readonly epoch: number;
  readonly takesPart: boolean;
  /** Unix seconds at which the batch is sent. */
  readonly sendAt: number;
}

/** A token for one batch: the random draws for it, and the state of its request. */
export interface Token {
  /** Epoch in which the token can be used. */
  readonly epoch: number;
  /** Public key of the proxy for this token, from the manifest of the epoch before. */
  readonly key: Uint8Array | null;
  /** Random id of the batch for which the token is made. */
  readonly id: Uint8Array;
  /**
   * Whether the device wants a token. False also after the request was refused or the answer was
   * not valid.
   */
  readonly wanted: boolean;
  /** Unix seconds at which the token is requested. */
  readonly askAt: number;
  /**
   * State that turns the answer into a token. It is stored before the request, so that the request
   * can be repeated.
   */
  readonly state: Uint8Array | null;
  readonly answer: Uint8Array | null;
  /** Output of the token, which the batch contains. */
  readonly output: Uint8Array | null;
}

/** Draw whether to take part in an epoch, and when to send. Both draws are always made. */
export function drawPlan(
  manifest: Manifest,
  turnsLeft: number,
  now: number,
  jitter: number,
  entropy: Entropy,
): Plan {
  const takesPart = drawUniform(entropy) < computeParticipationChance(manifest, turnsLeft);
  const leadTime = computeLead(manifest);
  const earliest = now + leadTime;
  const latest = earliest + leadTime < manifest.closes ? manifest.closes : endOfEpoch(manifest);
  const spanSeconds = Math.max(Math.min(jitter, latest - leadTime - earliest), 0);
  return {
    epoch: manifest.epoch,
    takesPart,
    sendAt: earliest + spanSeconds * drawUniform(entropy),
  };
}

/**
 * Return the probability of taking part in this epoch. With 1 or more the device takes part for
 * certain.
 *
 * In a training with an end, it is the number of turns left divided by the number of epochs left.
 * So every device uses all of its turns, and all epochs are equally likely. With a constant share
 * of 1/20, one device in three would not use its only turn within 20 epochs. In a training without
 * an end, the probability is the share in the terms.
 *
 * The probability depends on public numbers and earlier draws, never on the history. A server that
 * states a false `epochsLeft` makes devices use their turns sooner, but not more turns.
 */
export function computeParticipationChance(
  { terms, epochsLeft }: Manifest,
  turnsLeft: number,
): number {
  return epochsLeft > 0 ? turnsLeft / epochsLeft : terms.share;
}

/**
 * Return the probability of requesting a token for the next epoch.
 *
 * It is the probability of taking part in that epoch (see `computeParticipationChance`). With
 * accounts, every device that has a token takes part.
 */
export function computeTokenChance(manifest: Manifest, turnsLeft: number): number {
  const { epochsLeft, publicKey } = manifest;
  const epochsThen = epochsLeft && Math.max(epochsLeft - Number(publicKey !== null), 1);
  return computeParticipationChance({ ...manifest, epochsLeft: epochsThen }, turnsLeft);
}

/** Draw whether to request a token for the next epoch, and when. Both draws are always made. */
export function drawToken(
  manifest: Manifest,
  turnsLeft: number,
  now: number,
  jitter: number,
  entropy: Entropy,
): Token {
  const wanted = drawUniform(entropy) < computeTokenChance(manifest, turnsLeft);
  const askAt = now + jitter * drawUniform(entropy);
  const [epoch, key, id] = [manifest.epoch + 1, manifest.nextTokenKey, entropy(BATCH_ID_BYTES)];
  return { epoch, key, id, wanted, askAt, state: null, answer: null, output: null };
}

/**
 * Return the minimum time in seconds between the end of a batch (sent, dropped or forgotten) and a
 * token request.
 */
export function computeTokenDelay({ opens, closes }: Manifest): number {
  return Math.min(3_600, (closes - opens) / 4);
}

/**
 * Return the lead: the time in seconds that making a batch takes at most, on a slow device. It
 * depends on public numbers only.
 *
 * Reading a history of `MAX_HISTORY_ITEMS` items takes at most five seconds. The owner may have
 * touched every item of the catalogue. Each item costs F^2 operations for the normal equations, and
 * 256 more for everything else, such as the ranking of its row.
 */
export function computeLead({ items, terms }: Pick<Manifest, "items" | "terms">): number {
  return 5 + (items * (terms.factors ** 2 + 256)) / 2 ** 23 + terms.reports / 200;
}

/**
 * Check whether a batch that is started now can be sent in time. Otherwise it must not be charged.
 *
 * Two leads must be left: one to make the batch, and one as a reserve for devices that are late.
 */
export function canStillSend(manifest: Manifest, now: number): boolean {
  return isOpen(manifest, now) && isOpen(manifest, now + 2 * computeLead(manifest));
}

/** Return a random number in [0, 1). */
function drawUniform(entropy: Entropy): number {
  const random = entropy(8);
  const view = new DataView(random.buffer, random.byteOffset, random.byteLength);
  return Number(view.getBigUint64(0, true) >> 11n) * 2 ** -53;
}
