/** Recommending: offline, without the own items, and with reasons that add up. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { fromHex } from "../src/bytes.js";
import type { Catalogue } from "../src/catalogue.js";
import type { Edition } from "../src/fetching.js";
import { recommendations, scoreItems } from "../src/recommending.js";
import { openManifest } from "../src/signed.js";
import { contributions, type Matrix } from "../src/user.js";
import { FACTORS, ITEMS, item, itemMatrix, numbers } from "./published.js";
import { AT_ONCE, World } from "./world.js";

function catalogueOf(length: number): Catalogue {
  const items = Array.from({ length }, (_, n) => ({ id: item(n), title: `Title ${n}`, tags: [] }));
  return { items, numbers: new Map(items.map(({ id }, n) => [id, n])) };
}

async function editionOf(world: World, V?: Matrix): Promise<Edition> {
  const signed = await openManifest(world.manifest, fromHex(world.key));
  const own = { values: itemMatrix(1), rows: ITEMS, columns: FACTORS };
  return { signed, V: V ?? own, catalogue: catalogueOf(ITEMS) };
}

test("the best items that are not the own ones", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  await client.sync(AT_ONCE);
  const calls = world.requests.length;
  const found = await client.recommend(ITEMS);
  assert.equal(world.requests.length, calls);
  assert.equal(found.length, ITEMS - 3);
  const own = [item(3), item(7), item(20)];
  assert.ok(found.every(({ id }) => !own.includes(id)));
  const scores = found.map(({ score }) => score);
  assert.deepEqual(
    scores,
    [...scores].sort((a, b) => b - a),
  );
  assert.equal(found[0]?.title, `Title ${Number(found[0]?.id.slice(-4))}`);
  assert.deepEqual(found[0]?.tags, ["x".repeat(100)]);
  assert.ok(found.flatMap(({ because }) => because).every(({ id }) => own.includes(id)));
  assert.deepEqual(await client.recommend(4), found.slice(0, 4));
});

test("what is added and removed changes them at once", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  await client.refresh();
  const [best] = await client.recommend(1);
  assert.ok(best);
  await client.record([best.id]);
  assert.ok((await client.recommend(ITEMS)).every(({ id }) => id !== best.id));
  await client.remove([best.id]);
  assert.deepEqual(await client.recommend(1), [best]);
});

test("a model must be there, and at least one item be asked for", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  await assert.rejects(client.recommend(), { name: "StoreError", message: /sync first/ });
  await client.refresh();
  for (const n of [0, -1, 1.5, Number.NaN]) {
    await assert.rejects(client.recommend(n), { name: "SettingsError", message: /at least one/ });
  }
});

test("who touched everything is recommended nothing", async (t) => {
  const world = await World.begin(t);
  const client = await world.open();
  await client.record(Array.from({ length: ITEMS }, (_, n) => item(n)));
  await client.refresh();
  assert.deepEqual(await client.recommend(5), []);
});

test("reasons are the largest positive contributions, as parts of all positive ones", async (t) => {
  const world = await World.begin(t);
  const edition = await editionOf(world);
  const { alpha, regularization } = edition.signed.manifest;
  const random = numbers(11);
  const lengths = new Set<number>();
  for (let round = 0; round < 30; round += 1) {
    const own = [...Array(ITEMS).keys()].filter(() => random() < 0.05 + round / 60);
    for (const each of recommendations(edition, own.map(item), 5)) {
      const row = Number(each.id.slice(-4));
      const parts = contributions(edition.V, own, row, alpha, regularization);
      const total = parts.filter((part) => part > 0).reduce((sum, part) => sum + part, 0);
      const best = own
        .map((number, place) => ({ id: item(number), share: (parts[place] ?? 0) / total }))
        .filter(({ share }) => share > 0)
        .sort((a, b) => b.share - a.share);
      assert.deepEqual(
        each.because.map(({ id, share }) => ({ id, share })),
        best.slice(0, 2),
      );
      assert.ok(each.because.every(({ share }) => share > 0 && share <= 1));
      lengths.add(each.because.length);
      const sum = parts.reduce((all, part) => all + part, 0);
      assert.ok(own.length === 0 || Math.abs(sum - each.score) < 1e-5);
    }
  }
  assert.ok(lengths.has(2));
});

test("without a history popular items come first in any basis, and need no reason", async (t) => {
  // A model of people whose taste is popularity alone, turned by an angle.
  const world = await World.begin(t);
  const noise = numbers(5);
  const plain = Array.from(
    { length: ITEMS },
    (_, n) => [1 - n / 60, 0.01 * (noise() - 0.5)] as const,
  );
  for (const angle of [0, 1, 2, 3, 4, 5]) {
    const [cosine, sine] = [Math.cos(angle), Math.sin(angle)];
    const values = Float32Array.from(
      plain.flatMap(([a, b]) => [a * cosine - b * sine, a * sine + b * cosine]),
    );
    const edition = await editionOf(world, { values, rows: ITEMS, columns: 2 });
    const found = recommendations(edition, ["not known"], 5);
    assert.deepEqual(
      found.map(({ id }) => id),
      [0, 1, 2, 3, 4].map(item),
    );
    assert.deepEqual(
      found.flatMap(({ because }) => because),
      [],
    );
    assert.equal(scoreItems(edition, []).length, ITEMS);
  }
});

test("among equals the catalogue's order holds", async (t) => {
  const world = await World.begin(t);
  const values = new Float32Array(ITEMS * FACTORS).fill(0.25);
  const edition = await editionOf(world, { values, rows: ITEMS, columns: FACTORS });
  const found = recommendations(edition, [item(1)], 4).map(({ id }) => id);
  assert.deepEqual(found, [0, 2, 3, 4].map(item));
});
