/**
 * The client's parts on a line: another implementation asks, and compares with its own answers.
 *
 * Each line of standard input is a JSON object whose `do` names one of the commands below; each is
 * answered by one line: what it gave, or `{"error": name, "message": text}`.
 */

import { createInterface } from "node:readline";
import { createTokenMaker, finalize } from "../src/accounts.js";
import { encodeBatch } from "../src/batch.js";
import { fromHex, toHex } from "../src/bytes.js";
import { decodeCatalogue } from "../src/catalogue.js";
import { LedgerError } from "../src/errors.js";
import {
  type Charge,
  computeRemaining,
  decide,
  roundDown,
  roundUp,
  sumCharges,
} from "../src/ledger.js";
import { openManifest } from "../src/manifest.js";
import { computeRowWeights } from "../src/mechanism/directions.js";
import { makeReports } from "../src/mechanism/registry.js";
import { decodeItems } from "../src/model.js";
import { sealReports } from "../src/sealing.js";
import { toFields } from "../src/terms.js";
import { solveUserVector, sortRows } from "../src/vector.js";
import { fromWords, readCharge, type WrittenCharge } from "./vectors.js";

interface Step {
  limit?: number;
  charge?: WrittenCharge;
}

/** Bytes travel as hexadecimal, words as hexadecimal without a prefix, floats as JSON numbers. */
interface Asked {
  batch: { signed: string; key: string; model: string; own: number[]; words: string[]; id: string };
  rows: { signed: string; key: string; model: string; own: number[] };
  ledger: { steps: Step[] };
  manifest: { signed: string; key: string };
  catalogue: { bytes: string };
  model: { bytes: string; items: number; factors: number };
  request: { epoch: number; id: string; attestation: string; state: string | null };
  finalize: { state: string; answer: string; key: string };
}

type Commands = { [name in keyof Asked]: (asked: Asked[name]) => Promise<object> };

const commands: Commands = {
  async batch({ signed, key, model, own, words, id }) {
    const { manifest, hash } = await openManifest(fromHex(signed), fromHex(key));
    const { items, epoch, publicKey, terms } = manifest;
    const V = decodeItems(fromHex(model), items, terms.factors);
    const { reports, readable } = await makeReports(manifest, V, own, fromWords(words));
    if (publicKey === null) throw new Error("this manifest asks for no reports");
    const sealed = await sealReports(reports, publicKey, hash);
    const batch = encodeBatch({ epoch, manifestHash: hash, id: fromHex(id), sealed });
    return { batch: toHex(batch), reports: [...reports], readable };
  },
  async rows({ signed, key, model, own: touched }) {
    const { manifest } = await openManifest(fromHex(signed), fromHex(key));
    const { items, alpha, regularization, terms } = manifest;
    const V = decodeItems(fromHex(model), items, terms.factors);
    const own = sortRows(touched, items);
    const person = { manifest, V, own, x: solveUserVector(V, own, alpha, regularization) };
    return { rows: [...(await computeRowWeights(person))] };
  },
  async ledger({ steps }) {
    return { answers: applySteps(steps) };
  },
  async manifest({ signed, key }) {
    const { manifest, hash, key: last } = await openManifest(fromHex(signed), fromHex(key));
    const { epoch, alpha, regularization, closes, epochsLeft, terms } = manifest;
    const fields = [epoch, terms.epsilon, terms.reports, alpha, regularization, closes, epochsLeft];
    return { hash: toHex(hash), key: toHex(last), fields, terms: toFields(terms) };
  },
  async catalogue({ bytes }) {
    const { items } = decodeCatalogue(fromHex(bytes));
    return { items: items.map(({ id, title, tags }) => [id, title, tags]) };
  },
  async model({ bytes, items, factors }) {
    return { values: [...decodeItems(fromHex(bytes), items, factors).values] };
  },
  async request({ epoch, id, attestation, state }) {
    const { request } = createTokenMaker(async () => fromHex(attestation));
    const asked = await request(epoch, fromHex(id), state === null ? null : fromHex(state));
    return { bytes: toHex(asked?.bytes ?? fromHex("")), state: toHex(asked?.state ?? fromHex("")) };
  },
  async finalize({ state, answer, key }) {
    return { output: toHex(await finalize(fromHex(state), fromHex(answer), fromHex(key))) };
  },
};

/** Apply steps to an empty ledger; return its decisions and the totals after each one. */
function applySteps(steps: readonly Step[]): object[] {
  let limit = 0;
  const charges: Charge[] = [];
  return steps.map((step) => {
    limit = step.limit ?? limit;
    const next = step.charge && readCharge(step.charge);
    const decision = next === undefined ? null : decideOrContradict(limit, charges, next);
    if (decision === "charged" && next !== undefined) charges.push(next);
    const shown = [roundUp(sumCharges(charges)), roundDown(computeRemaining(limit, charges))];
    return { decision, spent: sumCharges(charges).toString(16), shown };
  });
}

function decideOrContradict(limit: number, charges: readonly Charge[], next: Charge): string {
  try {
    return decide(limit, charges, next);
  } catch (error) {
    if (error instanceof LedgerError) return "contradicted";
    throw error;
  }
}

async function answer(line: string): Promise<object> {
  try {
    const { do: name, ...asked } = JSON.parse(line);
    return await commands[name as keyof Commands](asked);
  } catch (error) {
    const { name, message } = error instanceof Error ? error : new Error(String(error));
    return { error: name, message };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await answer(line))}\n`);
}
