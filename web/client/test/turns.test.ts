/** Everybody has all of their turns before the training ends, and nobody has more. */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { chance, drawnPlan } from "../src/timing.js";
import type { Entropy } from "../src/words.js";
import { charges } from "./stored.js";
import { manifestWith, seeded } from "./vectors.js";
import { AT_ONCE, DAY, World } from "./world.js";

const announced = (share: number, epochsLeft: number) =>
  manifestWith({ epochsLeft, terms: { share } });

function bytesFrom(random: () => number): Entropy {
  return (size) => Uint8Array.from({ length: size }, () => random() * 256);
}

const never: Entropy = (size) => new Uint8Array(size).fill(255);
const always: Entropy = (size) => new Uint8Array(size);

test("the chance is what is left; without an end, the share", () => {
  for (const [share, turns, epochsLeft, expected] of [
    [0.75, 20, 0, 0.75],
    [0.05, 1, 19, 1 / 19],
    [0.25, 5, 20, 0.25],
    [0.3, 5, 20, 0.25],
    [0.05, 5, 5, 1],
    [0.05, 5, 2, 2.5],
  ] as const) {
    assert.equal(chance(announced(share, epochsLeft), turns), expected);
  }
});

test("two coins are tossed, whatever the chance", () => {
  for (const [share, epochsLeft] of [
    [2 ** -32, 0],
    [2 ** -32, 1],
    [1, 0],
    [0.5, 3],
  ] as const) {
    const asked: number[] = [];
    drawnPlan(announced(share, epochsLeft), 1, 0, 60, (size) => {
      asked.push(size);
      return new Uint8Array(size);
    });
    assert.deepEqual(asked, [8, 8]);
  }
});

/** The epochs, counted from 0, in which a device takes part. */
function life(turns: number, epochs: number, share: number, entropy: Entropy): number[] {
  const taken: number[] = [];
  for (let epoch = 0; epoch < epochs && taken.length < turns; epoch++) {
    const manifest = announced(share, epochs - epoch);
    if (drawnPlan(manifest, turns - taken.length, 0, 0, entropy).takesPart) taken.push(epoch);
  }
  return taken;
}

test("every turn is taken, whatever the coins", () => {
  const random = seeded(4);
  const mixed: Entropy = (size) => (random() < 0.5 ? never : always)(size);
  for (let epochs = 1; epochs <= 12; epochs++) {
    for (let turns = 1; turns <= epochs; turns++) {
      for (const entropy of [never, always, bytesFrom(random), mixed]) {
        assert.equal(life(turns, epochs, turns / epochs, entropy).length, turns);
      }
    }
  }
});

const [EPOCHS, PEOPLE] = [20, 2_000];
/** A chi-square with 19 degrees of freedom is larger with a chance of 1e-7. */
const MOST = 69.8;

test("who has one turn has it in every epoch alike", () => {
  const [entropy, usual] = [bytesFrom(seeded(5)), PEOPLE / EPOCHS];
  const taken = Array.from({ length: PEOPLE }, () => life(1, EPOCHS, 1 / EPOCHS, entropy)).flat();
  assert.equal(taken.length, PEOPLE);
  let distance = 0;
  for (let epoch = 0; epoch < EPOCHS; epoch++) {
    const crowd = taken.filter((each) => each === epoch).length;
    distance += (crowd - usual) ** 2 / usual;
  }
  assert.ok(distance < MOST, `${distance}`);
});

/** What becomes of epochs whose manifests say that so many are left. */
async function lived(t: TestContext, terms: object, said: readonly number[], entropy: Entropy) {
  const world = await World.begin(t, { terms: { ...terms } });
  const client = await world.client({ limit: 1000, entropy });
  const outcomes: string[] = [];
  for (const [at, epochs_left] of said.entries()) {
    world.now = (at + 1.5) * DAY;
    await world.publish(at + 1, { epochs_left });
    outcomes.push((await client.sync(AT_ONCE)).outcome);
  }
  const sent = outcomes.filter((outcome) => outcome === "sent").length;
  assert.deepEqual([world.received.length, (await charges(world)).length], [sent, sent]);
  client.close();
  return outcomes;
}

test("a device has its turns by the last epoch", async (t) => {
  for (const turns of [1, 3]) {
    for (const seed of [1, 2, 3]) {
      const terms = { epochs: turns, share: turns / 8 };
      const outcomes = await lived(t, terms, [8, 7, 6, 5, 4, 3, 2, 1], bytesFrom(seeded(seed)));
      assert.equal(outcomes.filter((outcome) => outcome === "sent").length, turns);
    }
  }
});

test("a device that was away makes up for it", async (t) => {
  assert.deepEqual(await lived(t, { epochs: 2, share: 2 ** -32 }, [2, 1], never), ["sent", "sent"]);
});

test("a server that calls every epoch the last has the turns sooner, and never more", async (t) => {
  const outcomes = await lived(t, { epochs: 2, share: 2 ** -32 }, [1, 1, 1, 1, 1], never);
  assert.deepEqual(outcomes, ["sent", "sent", ...Array(3).fill("lifetime over")]);
});

test("no lie gives more turns", async (t) => {
  const random = seeded(6);
  for (let round = 0; round < 4; round++) {
    const said = Array.from(
      { length: 8 },
      () => [0, 1, 2, 8, 2 ** 53 - 1][Math.floor(random() * 5)] ?? 0,
    );
    const outcomes = await lived(t, { epochs: 2, share: 0.5 }, said, bytesFrom(random));
    assert.ok(outcomes.filter((outcome) => outcome === "sent").length <= 2);
  }
});
