/**
 * What is spent and what is promised: the same figures and sentences as in every other client.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { countTurnsLeft } from "../src/agreement.js";
import { LedgerError, SettingsError, TermsError } from "../src/errors.js";
import {
  type Charge,
  computeLimit,
  computeRemaining,
  countAffordableEpochs,
  decide,
  roundDown,
  roundUp,
  sumCharges,
} from "../src/ledger.js";
import { computePromise, describeFigures, summarize } from "../src/promise.js";
import { ledger, promises, readCharge, type WrittenCharge } from "./vectors.js";
import { AT_ONCE, COST, DAY, item, TERMS, World } from "./world.js";

const charge: Charge = {
  training: "0f".repeat(16),
  epoch: 1,
  purpose: "0a".repeat(32),
  mechanism: "loudest",
  epsilon: 2.5,
  reports: 4,
  loudFraction: 0.1,
  clients: 100,
  dummies: 0,
};

interface Step {
  limit?: number;
  charge?: WrittenCharge;
  decision?: string;
  spent: string;
  shown: number[];
}

function decideOrContradict(limit: number, charges: readonly Charge[], next: Charge): string {
  try {
    return decide(limit, charges, next);
  } catch (error) {
    assert.ok(error instanceof LedgerError);
    return "contradicted";
  }
}

for (const { label, steps } of ledger as { label: string; steps: Step[] }[]) {
  test(`the ledger decides alike: ${label}`, () => {
    let limit = 0;
    const charges: Charge[] = [];
    for (const step of steps) {
      limit = step.limit ?? limit;
      if (step.charge !== undefined) {
        const next = readCharge(step.charge);
        const decision = decideOrContradict(limit, charges, next);
        assert.equal(decision, step.decision);
        if (decision === "charged") charges.push(next);
      }
      assert.equal(sumCharges(charges).toString(16), step.spent);
      const shown = [roundUp(sumCharges(charges)), roundDown(computeRemaining(limit, charges))];
      assert.deepEqual(shown, step.shown);
    }
  });
}

test("the same purpose for anything else contradicts the ledger", () => {
  assert.equal(decide(50, [charge], charge), "known");
  const others = [{ training: "00".repeat(16) }, { epoch: 2 }, { epsilon: 1 }];
  for (const change of [
    ...[...others, { mechanism: "other" }, { reports: 1 }],
    ...[{ loudFraction: 0.2 }, { clients: 99 }, { dummies: 1 }],
  ]) {
    assert.throws(() => decide(50, [charge], { ...charge, ...change }), LedgerError);
  }
});

test("what no ledger can hold is refused before it is decided on", () => {
  const wrong: Partial<Charge>[] = [
    ...[-1, 1.5, 2 ** 53].map((epoch) => ({ epoch })),
    ...["0F".repeat(16), "0f".repeat(15)].map((training) => ({ training })),
    ...["0A".repeat(32), "0a".repeat(31)].map((purpose) => ({ purpose })),
    ...["", "Loudest"].map((mechanism) => ({ mechanism })),
    ...[0, -1, NaN, Infinity].map((epsilon) => ({ epsilon })),
    ...[0, 2.5].map((reports) => ({ reports })),
    ...[0, 0.51, NaN].map((loudFraction) => ({ loudFraction })),
    ...[0, 1.5].map((clients) => ({ clients })),
  ];
  for (const change of wrong) {
    assert.throws(() => decide(50, [], { ...charge, ...change }), SettingsError);
  }
  for (const limit of [-1, NaN, Infinity]) {
    assert.throws(() => decide(limit, [], charge), SettingsError);
  }
});

type Case = (typeof promises)[number];

function termsIn({ epsilon, loud_fraction, reports, epochs, clients, dummies, accounts }: Case) {
  const asked = { epsilon, loudFraction: loud_fraction, reports, epochs, accounts };
  return { ...TERMS, ...asked, minClients: clients, dummies };
}

function chargesIn({ charges }: Case): Charge[] {
  return charges.flatMap(({ times, training, loud_fraction, ...kind }) => {
    const name = training === "own" ? TERMS.training : training;
    return Array(times).fill({ ...charge, ...kind, training: name, loudFraction: loud_fraction });
  });
}

test("figures, turns and sentences are the other implementation's", () => {
  assert.ok(promises.length > 40);
  for (const one of promises) {
    const [terms, charges] = [termsIn(one), chargesIn(one)];
    const promised = computePromise(terms, charges, one.delta);
    assert.equal(promised.local, one.local);
    for (const [figure, expected] of [
      [promised.central, one.central],
      [promised.dummiesOnly, one.dummies_only],
    ] as const) {
      assert.ok(Math.abs(figure - expected) <= 1e-9 * expected, `${figure}, not ${expected}`);
    }
    assert.deepEqual(describeFigures(promised), one.figures);
    const turns = countTurnsLeft(terms, charges);
    const within = countAffordableEpochs(one.limit, sumCharges(charges), terms, turns);
    assert.deepEqual([turns, within], [one.turns_left, one.turns_within_limit]);
    assert.deepEqual(summarize(terms, charges, one.limit, { delta: one.delta }), one.summary);
  }
});

test("the sentences about names say what a report is, as in the other implementation", () => {
  const named = { mechanism: "named", parameters: { names: 10_760 }, loudFraction: 1 / 10_760 };
  const [leaves] = summarize({ ...TERMS, ...named, epsilon: 10, reports: 1, epochs: 4 }, [], 100);
  assert.equal(
    leaves,
    "Your history stays here; at most 4 reports (what you touched last, or one of 10,760 by " +
      "chance) go through a proxy to a server.",
  );
});

test("the extremes of the terms have a promise", () => {
  for (const epsilon of [1e-6, 2.5, 40]) {
    for (const loudFraction of [2 ** -25, 0.5]) {
      for (const epochs of [1, Number.MAX_SAFE_INTEGER]) {
        const terms = { ...TERMS, epsilon, loudFraction, epochs, reports: 10_000 };
        const { local, central } = computePromise(terms, []);
        assert.ok(Number.isFinite(local) && central >= 0 && central <= local, `${central}`);
      }
    }
  }
});

test("a limit for some epochs pays for these and no more, whatever is gone", () => {
  for (const epsilon of [0.1, 2.5, 1 / 3]) {
    const price = { epsilon, reports: 3 };
    const gone = sumCharges(Array(7).fill({ ...charge, epsilon: 0.7 }));
    for (const epochs of [1, 2, 10]) {
      const limit = computeLimit(epochs, gone, price);
      assert.equal(countAffordableEpochs(limit, gone, price, 100), epochs);
      assert.equal(
        countAffordableEpochs(limit * (1 - Number.EPSILON), gone, price, 100),
        epochs - 1,
      );
      assert.equal(countAffordableEpochs(limit, gone, price, 1), 1);
    }
  }
});

// A device, training after training.

test("after a second and a third training the promise still holds", async (t) => {
  const world = await World.begin(t, { terms: { epochs: 2 } });
  const client = await world.open({ limit: 3 * COST });
  await client.record([item(3)]);
  let epoch = 0;
  for (const training of [1, 2, 3]) {
    const asked = { training: `0${training}`.repeat(16), epochs: 2 };
    await world.publish(++epoch, { terms: asked });
    world.now = (epoch + 0.5) * DAY;
    const terms = { ...TERMS, ...asked };
    const before = await client.status();
    assert.deepEqual(before.charges.length, 2 * (training - 1));
    const promised = computePromise(terms, before.charges);
    assert.equal(promised.local, training * 2 * COST);
    assert.ok(promised.central > computePromise(terms, []).central || training === 1);
    const turns = countTurnsLeft(terms, before.charges);
    const within = countAffordableEpochs(before.limit, sumCharges(before.charges), terms, turns);
    assert.deepEqual([turns, within], [2, [2, 1, 0][training - 1]]);
    await client.refresh().catch((error) => assert.ok(error instanceof TermsError));
    await client.accept(terms, 100 * COST);
    for (const outcome of ["sent", "sent", "lifetime over"]) {
      assert.equal((await client.sync(AT_ONCE)).outcome, outcome);
      const { charges, spentEpsilon: gone } = await client.status();
      assert.deepEqual(computePromise(terms, charges), promised);
      assert.ok(gone <= promised.local);
      await world.publish(++epoch, { terms: asked });
      world.now = (epoch + 0.5) * DAY;
    }
    await client.setLimit(3 * COST);
  }
});
