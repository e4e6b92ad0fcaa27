/** The proxy's side of tokens, and the product's backend: a key for each epoch, one token for each account. */

import { EvaluationRequest, generatePublicKey, Oprf, VOPRFServer } from "@cloudflare/voprf-ts";
import { CryptoNoble } from "@cloudflare/voprf-ts/crypto-noble";
import { createTokenMaker, type TokenMaker } from "../src/accounts.js";
import { concatenate, encodeUtf8, toHex } from "../src/bytes.js";
import type { Virtual } from "./virtual.js";
import { type Answer, type Changes, reply } from "./world.js";

const SUITE = Oprf.Suite.RISTRETTO255_SHA512;

export class Issuer {
  /** Of each request, in order: epoch, account and element. */
  readonly asked: { epoch: number; who: string; element: string }[] = [];
  readonly #firstElements = new Map<string, string>();

  /** Return the fields that a manifest of this epoch has with accounts. */
  fields(epoch: number): Changes {
    const [token_key, next_token_key] = [epoch, epoch + 1].map((number) => toHex(this.key(number)));
    return { token_key, next_token_key, terms: { accounts: true } };
  }

  key(epoch: number): Uint8Array {
    return generatePublicKey(SUITE, secret(epoch), CryptoNoble);
  }

  /** For `World.answer`. */
  answer: Answer = async (response, call, body) => {
    if ((call as string) !== "tokens") return false;
    const epoch = new DataView(body.buffer, body.byteOffset).getUint32(4, true);
    const [who, element] = [toHex(body.subarray(8, 40)), toHex(body.subarray(112))];
    this.asked.push({ epoch, who, element });
    const name = `${epoch} ${who}`;
    const before = this.#firstElements.get(name) ?? element;
    this.#firstElements.set(name, before);
    if (before !== element) return reply(response, 409);
    return reply(response, 200, await this.evaluated(epoch, body.subarray(112)));
  };

  async evaluated(epoch: number, element: Uint8Array): Promise<Uint8Array> {
    const server = new VOPRFServer(SUITE, secret(epoch), CryptoNoble);
    const read = concatenate([Uint8Array.of(0, 1), element]);
    const request = EvaluationRequest.deserialize(SUITE, read, CryptoNoble);
    const { evaluated, proof } = await server.blindEvaluate(request);
    return concatenate([proof?.serialize() ?? element, evaluated[0]?.serialize() ?? element]);
  }

  /** Check whether a batch has a token of this epoch. */
  redeems(epoch: number, batch: Uint8Array): Promise<boolean> {
    const input = concatenate([encodeUtf8("sottovoce token 2\0"), batch.subarray(40, 56)]);
    const server = new VOPRFServer(SUITE, secret(epoch), CryptoNoble);
    return server.verifyFinalize(input, batch.subarray(56, 120));
  }
}

function secret(epoch: number): Uint8Array {
  return Uint8Array.of(epoch, 1, ...new Array(30).fill(0));
}

/** Return the token maker of a page of this virtual time whose thread is first busy for some seconds. */
export function tokenMakerFor(who: number, virtual: Virtual, busy = () => 0): TokenMaker {
  const own = createTokenMaker(async () => new Uint8Array(104).fill(who));
  const delay =
    <Args extends unknown[], Result>(work: (...args: Args) => Promise<Result>) =>
    (...args: Args) =>
      virtual.run(async () => {
        if (busy() > 0) await virtual.sleep(busy());
        return work(...args);
      });
  return { request: delay(own.request), finalize: delay(own.finalize) };
}
