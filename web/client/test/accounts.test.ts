/** Tokens for accounts: the numbers of RFC 9497 and of the other implementation, and what is refused. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { DLEQProof, Evaluation, FinalizeData, Oprf, VOPRFClient } from "@cloudflare/voprf-ts";
import { CryptoNoble } from "@cloudflare/voprf-ts/crypto-noble";
import { blind, createTokenMaker, finalize } from "../src/accounts.js";
import { encodeBatch } from "../src/batch.js";
import { concatenate, fromHex, toHex } from "../src/bytes.js";
import { SettingsError, UntrustedError } from "../src/errors.js";
import { protocol } from "./vectors.js";

const SUITE = Oprf.Suite.RISTRETTO255_SHA512;
/** RFC 9497, A.1.2 (ristretto255-SHA512, VOPRF). */
const KEY = fromHex("c803e2cc6b05fc15064549b5920659ca4a77b2cca6f04f6b357009335476ad4e");
const BLIND = fromHex("64d37aed22a27f5191de1c1d69fadb899d8862b58eb4220029e036ec4c1f6706");
const RFC = [
  {
    input: "00",
    element: "863f330cc1a1259ed5a5998a23acfd37fb4351a793a5b3c090b642ddc439b945",
    evaluated: "aa8fa048764d5623868679402ff6108d2521884fa138cd7f9c7669a9a014267e",
    proof:
      "ddef93772692e535d1a53903db24367355cc2cc78de93b3be5a8ffcc6985dd06" +
      "6d4346421d17bf5117a2a1ff0fcb2a759f58a539dfbe857a40bce4cf49ec600d",
    output:
      "b58cfbe118e0cb94d79b5fd6a6dafb98764dff49c14e1770b566e42402da1a7d" +
      "a4d8527693914139caee5bd03903af43a491351d23b430948dd50cde10d32b3c",
  },
  {
    input: "5a".repeat(17),
    element: "cc0b2a350101881d8a4cba4c80241d74fb7dcbfde4a61fde2f91443c2bf9ef0c",
    evaluated: "60a59a57208d48aca71e9e850d22674b611f752bed48b36f7a91b372bd7ad468",
    proof:
      "401a0da6264f8cf45bb2f5264bc31e109155600babb3cd4e5af7d181a2c9dc0a" +
      "67154fabf031fd936051dec80b0b6ae29c9503493dde7393b722eafdf5a50b02",
    output:
      "8a9a2f3c7f085b65933594309041fc1898d42d0858e59f90814ae90571a6df60" +
      "356f4610bf816f27afdd84f47719e480906d27ecd994985890e5f539e7ea74b6",
  },
];

/** Encode the state of a request as the library does: inputs, blinds and elements after their counts. */
function encodeState(input: Uint8Array, element: Uint8Array): Uint8Array {
  const sizes = Uint8Array.of(0, 1, 0, input.length);
  return concatenate([sizes, input, Uint8Array.of(0, 1), BLIND, Uint8Array.of(0, 1), element]);
}

function decodeExample({ input, element, proof, evaluated, output }: (typeof RFC)[number]) {
  const state = encodeState(fromHex(input), fromHex(element));
  return { state, answer: fromHex(proof + evaluated), output };
}

test("tokens are those of the RFC", async () => {
  for (const example of RFC) {
    const { state, answer, output } = decodeExample(example);
    assert.equal(toHex(await finalize(state, answer, KEY)), output);
  }
});

test("what is not proved to be made with the key is refused", async () => {
  const [one, other] = RFC.map(decodeExample);
  assert.ok(one && other);
  const { state, answer } = one;
  const flipped = (at: number) => answer.map((byte, place) => (place === at ? byte ^ 1 : byte));
  const lies = [
    other.answer,
    ...[0, 32, 64, 95].map(flipped),
    answer.subarray(1),
    answer.subarray(0, 95),
    concatenate([answer, new Uint8Array(1)]),
    concatenate([answer.subarray(0, 64), new Uint8Array(32)]),
    concatenate([new Uint8Array(32).fill(255), answer.subarray(32)]),
    new Uint8Array(96),
    new Uint8Array(),
  ];
  for (const lie of lies) {
    await assert.rejects(finalize(state, lie, KEY), UntrustedError, toHex(lie));
  }
  for (const key of [fromHex(RFC[0]?.element ?? ""), KEY.subarray(1), new Uint8Array(32)]) {
    await assert.rejects(finalize(state, answer, key), UntrustedError, toHex(key));
  }
});

test("a key of zero makes no tokens, with a proof that holds", async (t) => {
  const state = await blind(Uint8Array.of(1));
  const zero = new Uint8Array(32);
  const client = new VOPRFClient(SUITE, zero, CryptoNoble);
  const data = FinalizeData.deserialize(SUITE, state, CryptoNoble);
  const { group } = client;
  // For k = 0 the challenge depends on s alone: it is the last that the verifier computes.
  const s = await group.randomScalar();
  const hashed = t.mock.method(Object.getPrototypeOf(group), "hashToScalar");
  const finalizeWith = (proof: DLEQProof) =>
    client.finalize(data, new Evaluation(Oprf.Mode.VOPRF, [group.desElt(zero)], proof));
  await assert.rejects(finalizeWith(new DLEQProof(s, s)));
  const proof = new DLEQProof(await hashed.mock.calls.at(-1)?.result, s);
  assert.equal((await finalizeWith(proof))[0]?.length, 64, "the library takes it");
  await assert.rejects(
    finalize(state, concatenate([proof.serialize(), zero]), zero),
    UntrustedError,
  );
});

test("a request is what the other implementation writes, and keeps its element", async () => {
  const { attestation, epoch, request, element } = protocol.token;
  const id = fromHex(protocol.batch.id);
  const one = createTokenMaker(async () => fromHex(attestation.bytes));
  const state = encodeState(fromHex(protocol.token.input), fromHex(element));
  assert.equal(toHex((await one.request(epoch, id, state))?.bytes ?? id), request);
  const first = await one.request(epoch, id, null);
  assert.ok(first !== null);
  assert.equal(toHex(first.bytes.subarray(0, 112)), request.slice(0, 224));
  assert.deepEqual(await one.request(epoch, id, first.state), first);
  assert.notDeepEqual(await one.request(epoch, id, null), first, "blinded again");
  assert.ok(toHex(first.state).includes(protocol.token.input), "for this id");
});

test("a person who is not logged in asks for nothing, and a backend's mistake is reported", async () => {
  assert.equal(await createTokenMaker(async () => null).request(1, new Uint8Array(16), null), null);
  for (const wrong of [new Uint8Array(103), "text", undefined, {}]) {
    const mistaken = createTokenMaker(async () => wrong as Uint8Array);
    await assert.rejects(mistaken.request(1, new Uint8Array(16), null), SettingsError);
  }
});

test("a batch with a token is written alike", () => {
  const bytes = fromHex(protocol.batch_with_token.bytes);
  const output = fromHex(protocol.token.output);
  const batch = encodeBatch({
    epoch: protocol.manifest.fields.epoch,
    manifestHash: fromHex(protocol.manifest.hash),
    id: fromHex(protocol.batch.id),
    sealed: concatenate(protocol.sealing.sealed.map((report) => fromHex(report))),
    output,
  });
  assert.deepEqual(batch, bytes);
  assert.deepEqual(bytes.subarray(56, 120), output);
});
