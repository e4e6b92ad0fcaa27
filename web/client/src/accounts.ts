/**
 * `sottovoce-client/accounts`: reports of services that ask for accounts.
 *
 * The product's own backend attests that somebody has an account. In its name the proxy evaluates one
 * blinded number in an epoch, with a key that the signed manifest names. Unblinded, that is a token for one
 * batch of the next epoch; the proxy knows it as its own work, and not for whom it was done (VOPRF of
 * RFC 9497, ristretto255-SHA512).
 *
 * Nothing here knows a history. It stands apart, since only whoever has accounts needs it.
 */

import { DLEQProof, Evaluation, FinalizeData, Oprf, VOPRFClient } from "@cloudflare/voprf-ts";
import { CryptoNoble } from "@cloudflare/voprf-ts/crypto-noble";
import { concat, utf8 } from "./bytes.js";
import { SettingsError, UntrustedError } from "./errors.js";

/** What the product's backend says of whoever is logged in, now: 104 bytes; null: nobody is. */
export type Attest = () => Promise<Uint8Array | null>;

/** What a client asks the page for; what it does not look into it keeps and hands back. */
export interface Account {
  /** What to send for a token of this batch id; with the `state` of an earlier one, the same element again. */
  request(epoch: number, id: Uint8Array, state: Uint8Array | null): Promise<Requested | null>;
  /** The token's output; `UntrustedError` unless it was made with this key. */
  finalize(state: Uint8Array, answer: Uint8Array, key: Uint8Array): Promise<Uint8Array>;
}

export interface Requested {
  readonly bytes: Uint8Array;
  /** To make a token of the answer: to be stored before the request leaves. */
  readonly state: Uint8Array;
}

const SUITE = Oprf.Suite.RISTRETTO255_SHA512;
const GROUP = Oprf.getGroup(SUITE, CryptoNoble);
/** Before the id of the batch that a token is for. */
const INPUT = utf8("sottovoce token 2\0");
const MAGIC = utf8("SVT2");
const ATTESTATION = 104;
const ELEMENT = 32;
const PROOF = 64;

/** For `Client.open`, or the widget's `start`. */
export function account(attest: Attest): Account {
  return {
    async request(epoch, id, state) {
      const attestation = await attest();
      if (attestation === null) return null;
      if (attestation?.length !== ATTESTATION) {
        throw new SettingsError(`an attestation has ${ATTESTATION} bytes`);
      }
      const known = state ?? (await blinded(concat([INPUT, id])));
      const number = new Uint8Array(4);
      new DataView(number.buffer).setUint32(0, epoch, true);
      const element = known.subarray(-ELEMENT);
      return { bytes: concat([MAGIC, number, attestation, element]), state: known };
    },
    finalize,
  };
}

/** All that is needed of it later; ends with the blinded element. */
export async function blinded(input: Uint8Array): Promise<Uint8Array> {
  const [data] = await new VOPRFClient(SUITE, new Uint8Array(), CryptoNoble).blind([input]);
  return data.serialize();
}

/** Checks the proof that this key was used, then unblinds. */
export async function finalize(
  state: Uint8Array,
  answer: Uint8Array,
  key: Uint8Array,
): Promise<Uint8Array> {
  try {
    const [proof, element] = [answer.subarray(0, PROOF), answer.subarray(PROOF)];
    // With a key of zero, whose public key is this, anybody could make tokens. The library takes it.
    if (isZero(key) || isZero(element)) throw new Error("the identity");
    const evaluated = [GROUP.desElt(element)];
    const shown = DLEQProof.deserialize(GROUP.id, proof, CryptoNoble);
    const evaluation = new Evaluation(Oprf.Mode.VOPRF, evaluated, shown);
    const data = FinalizeData.deserialize(SUITE, state, CryptoNoble);
    const [output] = await new VOPRFClient(SUITE, key, CryptoNoble).finalize(data, evaluation);
    if (output === undefined) throw new Error("no output");
    return output;
  } catch (error) {
    throw new UntrustedError(`token: not made with the key of the manifest: ${error}`);
  }
}

function isZero(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte === 0);
}
