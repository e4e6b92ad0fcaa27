/**
 * `sottovoce-client/accounts`: tokens for services that require accounts.
 *
 * The product's own backend attests that the visitor has an account. The proxy then evaluates one
 * blinded element per account and epoch, with a secret key whose public key is in the signed
 * manifest. The unblinded result is a token for one batch of the next epoch. The proxy can check
 * its own tokens, but cannot tell for which account it made a token (VOPRF of RFC 9497,
 * ristretto255-SHA512).
 *
 * This module does not read the history. It is separate because only services with accounts need
 * it.
 */

import { DLEQProof, Evaluation, FinalizeData, Oprf, VOPRFClient } from "@cloudflare/voprf-ts";
import { CryptoNoble } from "@cloudflare/voprf-ts/crypto-noble";
import { concatenate, encodeUtf8 } from "./bytes.js";
import { SettingsError, UntrustedError } from "./errors.js";

/**
 * Asks the product's backend for an attestation that the visitor is logged in. Resolves to the 104
 * bytes of the attestation, or to null if nobody is logged in.
 */
export type Attest = () => Promise<Uint8Array | null>;

/**
 * Makes token requests and tokens for the account that is logged in on the page. The client stores
 * the `state` of a request without interpreting it.
 */
export interface TokenMaker {
  /**
   * Create a request for a token for the batch `id` in `epoch`, or return null if nobody is logged
   * in. To repeat an earlier request, pass its `state`: the blinded element stays the same. For a
   * first request, pass null.
   */
  request(epoch: number, id: Uint8Array, state: Uint8Array | null): Promise<TokenRequest | null>;
  /**
   * Return the output of the token, from the `state` of the request and the proxy's `answer`.
   * Throws an `UntrustedError` unless the proxy used the secret key that belongs to the public
   * `key`.
   */
  finalize(state: Uint8Array, answer: Uint8Array, key: Uint8Array): Promise<Uint8Array>;
}

/** A request for a token. */
export interface TokenRequest {
  /** The request, as it is sent to the proxy. */
  readonly bytes: Uint8Array;
  /** State that `finalize` needs. Store it before the request is sent. */
  readonly state: Uint8Array;
}

const VOPRF_SUITE = Oprf.Suite.RISTRETTO255_SHA512;
const GROUP = Oprf.getGroup(VOPRF_SUITE, CryptoNoble);
/** Prefix of the VOPRF input; the id of the batch follows it. */
const TOKEN_PREFIX = encodeUtf8("sottovoce token 2\0");
const REQUEST_MAGIC = encodeUtf8("SVT2");
const ATTESTATION_BYTES = 104;
const ELEMENT_BYTES = 32;
const PROOF_BYTES = 64;

/** Create a token maker to pass to `Client.open` or to the widget's `start`. */
export function createTokenMaker(attest: Attest): TokenMaker {
  return {
    async request(epoch, id, state) {
      const attestation = await attest();
      if (attestation === null) return null;
      if (attestation?.length !== ATTESTATION_BYTES) {
        throw new SettingsError(`attest() must return ${ATTESTATION_BYTES} bytes or null`);
      }
      const requestState = state ?? (await blind(concatenate([TOKEN_PREFIX, id])));
      const epochBytes = new Uint8Array(4);
      new DataView(epochBytes.buffer).setUint32(0, epoch, true);
      const element = requestState.subarray(-ELEMENT_BYTES);
      return {
        bytes: concatenate([REQUEST_MAGIC, epochBytes, attestation, element]),
        state: requestState,
      };
    },
    finalize,
  };
}

/**
 * Blind an input for the VOPRF. Return the state for `finalize`; its last 32 bytes are the blinded
 * element.
 */
export async function blind(input: Uint8Array): Promise<Uint8Array> {
  const [data] = await new VOPRFClient(VOPRF_SUITE, new Uint8Array(), CryptoNoble).blind([input]);
  return data.serialize();
}

/**
 * Verify the proof that the proxy used this key, then unblind the answer and return the token's
 * output.
 */
export async function finalize(
  state: Uint8Array,
  answer: Uint8Array,
  key: Uint8Array,
): Promise<Uint8Array> {
  try {
    const [proof, element] = [answer.subarray(0, PROOF_BYTES), answer.subarray(PROOF_BYTES)];
    // The library accepts the identity element as a public key. Its secret key is zero, so anyone
    // could make tokens for it.
    if (isZero(key) || isZero(element)) throw new Error("key and element must not be the identity");
    const evaluated = [GROUP.desElt(element)];
    const dleqProof = DLEQProof.deserialize(GROUP.id, proof, CryptoNoble);
    const evaluation = new Evaluation(Oprf.Mode.VOPRF, evaluated, dleqProof);
    const data = FinalizeData.deserialize(VOPRF_SUITE, state, CryptoNoble);
    const [output] = await new VOPRFClient(VOPRF_SUITE, key, CryptoNoble).finalize(
      data,
      evaluation,
    );
    if (output === undefined) throw new Error("the library returned no output");
    return output;
  } catch (error) {
    throw new UntrustedError(
      `the proxy did not make the token with the key in the manifest: ${error}`,
    );
  }
}

function isZero(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte === 0);
}
