import assert from "node:assert/strict";
import { test } from "node:test";
import {
  amount,
  type Charge,
  checkCharge,
  decide,
  isWithin,
  remaining,
  roundedDown,
  roundedUp,
  spent,
} from "../src/amount.js";
import { LedgerError, SettingsError } from "../src/errors.js";
import { ledger, readCharge, seeded, type WrittenCharge } from "./vectors.js";

const charge: Charge = {
  training: "0f".repeat(16),
  epoch: 1,
  purpose: "0a".repeat(32),
  mechanism: "loudest",
  epsilon: 2.5,
  reports: 4,
  loudFraction: 0.1,
  clients: 100,
};

interface Step {
  limit?: number;
  charge?: WrittenCharge;
  decision?: string;
  spent: string;
  shown: number[];
}

function decided(limit: number, charges: readonly Charge[], next: Charge): string {
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
        const decision = decided(limit, charges, next);
        assert.equal(decision, step.decision);
        if (decision === "charged") charges.push(next);
      }
      assert.equal(spent(charges).toString(16), step.spent);
      const shown = [roundedUp(spent(charges)), roundedDown(remaining(limit, charges))];
      assert.deepEqual(shown, step.shown);
    }
  });
}

test("an amount is exact: of the float, not of its decimals", () => {
  assert.equal(amount(5e-324, 1), 1n);
  assert.equal(amount(1, 1), 1n << 1074n);
  assert.equal(amount(2.5, 4), 10n << 1074n);
  assert.ok(amount(0.1, 10) > amount(1, 1));
  assert.equal(amount(Number.MAX_VALUE, 1), ((1n << 53n) - 1n) << (971n + 1074n));
});

test("the same purpose for anything else contradicts the ledger", () => {
  assert.equal(decide(50, [charge], charge), "known");
  const others = [{ training: "00".repeat(16) }, { epoch: 2 }, { epsilon: 1 }];
  for (const change of [
    ...[...others, { mechanism: "other" }, { reports: 1 }],
    ...[{ loudFraction: 0.2 }, { clients: 99 }],
  ]) {
    assert.throws(() => decide(50, [charge], { ...charge, ...change }), LedgerError);
  }
});

test("another batch is within the limit to the last bit", () => {
  const tenth = { ...charge, epsilon: 0.1, reports: 10 };
  assert.ok(!isWithin(1, [], tenth));
  assert.ok(isWithin(1.0000000000000002, [], tenth));
  assert.ok(isWithin(20, [charge], charge));
  assert.ok(!isWithin(19.999999999999996, [charge], charge));
});

test("any float goes both ways unchanged", () => {
  const random = seeded(9);
  const view = new DataView(new ArrayBuffer(8));
  for (let round = 0; round < 2_000; round++) {
    view.setUint32(0, Math.floor(random() * 0x7ff00000));
    view.setUint32(4, Math.floor(random() * 2 ** 32));
    const value = view.getFloat64(0);
    if (value === 0) continue;
    assert.equal(roundedUp(amount(value, 1)), value);
    assert.equal(roundedDown(amount(value, 1)), value);
  }
});

test("rounding goes to the float above and to the float below", () => {
  const one = amount(1, 1);
  assert.equal(roundedUp(one + 1n), 1 + Number.EPSILON);
  assert.equal(roundedDown(one + 1n), 1);
  assert.equal(roundedUp(one - 1n), 1);
  assert.equal(roundedDown(one - 1n), 1 - Number.EPSILON / 2);
  const most = amount(Number.MAX_VALUE, 1);
  assert.equal(roundedUp(most + 1n), Infinity);
  assert.equal(roundedDown(most + 1n), Number.MAX_VALUE);
  assert.equal(roundedDown(4n * most), Number.MAX_VALUE);
  assert.equal(roundedUp(0n), 0);
  assert.throws(() => roundedUp(-1n), SettingsError);
});

test("what no ledger can hold is refused before it is decided on", () => {
  const wrong: Partial<Charge>[] = [
    { epoch: -1 },
    { epoch: 1.5 },
    { epoch: 2 ** 53 },
    { training: "0F".repeat(16) },
    { training: "0f".repeat(15) },
    { purpose: "0A".repeat(32) },
    { purpose: "0a".repeat(31) },
    { mechanism: "" },
    { mechanism: "Loudest" },
    { epsilon: 0 },
    { epsilon: -1 },
    { epsilon: NaN },
    { epsilon: Infinity },
    { reports: 0 },
    { reports: 2.5 },
    { loudFraction: 0 },
    { loudFraction: 0.51 },
    { loudFraction: NaN },
    { clients: 0 },
    { clients: 1.5 },
  ];
  for (const change of wrong) {
    assert.throws(() => decide(50, [], { ...charge, ...change }), SettingsError);
    assert.throws(() => checkCharge({ ...charge, ...change }), SettingsError);
  }
  for (const limit of [-1, NaN, Infinity]) {
    assert.throws(() => decide(limit, [], charge), SettingsError);
  }
});
