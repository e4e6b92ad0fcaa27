/**
 * When a device asks the proxy, takes part, and sends: computed from public numbers, a clock and
 * random draws, before any history is read.
 *
 * Computing takes longer for a longer history. So the moment of sending leaves time for it, and a
 * batch that is ready earlier waits.
 */

import type { Entropy } from "./coin.js";
import { endOfEpoch, isOpen, type Manifest } from "./epoch.js";

/**
 * Seconds over which the moment of sending is drawn.
 *
 * An installed client takes an hour, which hides when its device woke. A visit is short, and a page
 * shows its visit to the proxy anyway, by asking for news.
 */
export const JITTER_SECONDS = 5;
/**
 * More than the lead of any model. A batch that would wait longer was made before a clock was set
 * back.
 */
export const MAX_LEAD_SECONDS = 1_200;
/** Time before a token request in which the page finds out whether somebody is logged in. */
export const TOKEN_LEAD_SECONDS = 5;
/**
 * An answer to a token request that takes longer is not used.
 *
 * A proxy that could delay one answer until all others are spent would know whose batch comes last.
 */
export const MAX_TOKEN_WAIT_SECONDS = 60;
/** Random bytes that name a batch. */
export const BATCH_ID_BYTES = 16;

/** Whether and when a device sends in an epoch, as it was drawn. */
export interface Plan {
  readonly epoch: number;
  readonly takesPart: boolean;
  /** Unix seconds. */
  readonly sendAt: number;
}

/** The random draws about the token of an epoch, and what is known of it. */
export interface Token {
  /** Epoch in which it is spent. */
  readonly epoch: number;
  /** Key that it is made with; the manifest of the epoch before names it. */
  readonly key: Uint8Array | null;
  /** Random id of the batch that it is for. */
  readonly id: Uint8Array;
  /** Whether the device wants a token; false once it is known that it cannot have one. */
  readonly wanted: boolean;
  /** Unix seconds. */
  readonly askAt: number;
  /** What turns the answer into a token; stored before the request, so that it can be repeated. */
  readonly state: Uint8Array | null;
  readonly answer: Uint8Array | null;
  /** What a batch contains of it. */
  readonly output: Uint8Array | null;
}

/** Draw whether to take part and when to send. Both draws are always made. */
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
 * Return the chance of taking part in this epoch; from 1 on the device takes part for certain.
 *
 * In a training with an end it is the turns left over the epochs left. So every device has all of
 * its turns, and all epochs are equally likely; by a share of 1/20 one device in three would never
 * get its only turn in 20 epochs. Without an end it is the share of the terms.
 *
 * It depends on public numbers and earlier draws, never on the history. A server with a false
 * `epochsLeft` makes devices spend their turns sooner, and never more of them.
 */
export function computeParticipationChance(
  { terms, epochsLeft }: Manifest,
  turnsLeft: number,
): number {
  return epochsLeft > 0 ? turnsLeft / epochsLeft : terms.share;
}

/**
 * Return the chance of asking for a token for the next epoch.
 *
 * It is `participationChance`, one epoch ahead: with accounts, a device that has a token takes
 * part.
 */
export function computeTokenChance(manifest: Manifest, turnsLeft: number): number {
  const { epochsLeft, publicKey } = manifest;
  const epochsThen = epochsLeft && Math.max(epochsLeft - Number(publicKey !== null), 1);
  return computeParticipationChance({ ...manifest, epochsLeft: epochsThen }, turnsLeft);
}

/** Draw whether to request a token, and when. Both draws are always made. */
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

/** Return the least seconds from the end of a batch to a token request. */
export function computeTokenDelay({ opens, closes }: Manifest): number {
  return Math.min(3_600, (closes - opens) / 4);
}

/**
 * Return the seconds that making a batch takes at most, on a slow device, from public numbers only.
 *
 * Reading a history of `MAX_HISTORY_ITEMS` items takes five seconds. Each item of the catalogue
 * costs F^2 for the normal equations, and 256 more for everything else, such as ranking its row:
 * the owner may have touched every item.
 */
export function computeLead({ items, terms }: Pick<Manifest, "items" | "terms">): number {
  return 5 + (items * (terms.factors ** 2 + 256)) / 2 ** 23 + terms.reports / 200;
}

/**
 * Check whether a batch that is begun now can be sent in time; only then it may be charged.
 *
 * This takes two leads: one to make it, and the last one of an epoch is for devices that are late.
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
