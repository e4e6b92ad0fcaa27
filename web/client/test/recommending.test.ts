/** Recommending: offline, without the own items, and with reasons that add up. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { fromHex } from "../src/bytes.js";
import { catalogueOf } from "../src/catalogue.js";
import { personalOf, type Reason, recommendations } from "../src/recommending.js";
import { type Release, takenIn } from "../src/release.js";
import { openManifest } from "../src/signed.js";
import type { Traits } from "../src/tags.js";
import type { Matrix } from "../src/user.js";
import { partsOf } from "../src/wide.js";
import { FACTORS, ITEMS, item, itemMatrix, numbers, traitsOf } from "./published.js";
import { AT_ONCE, World } from "./world.js";

const UNTAGGED = (): Traits => ({});

async function releaseOf(world: World, V?: Matrix, traits = traitsOf): Promise<Release> {
  const signed = await openManifest(world.manifest, fromHex(world.key));
  const items = Array.from({ length: ITEMS }, (_, n) => {
    return { id: item(n), title: `Title ${n}`, tags: traits(n) };
  });
  const own = { values: itemMatrix(1), rows: ITEMS, columns: FACTORS };
  return takenIn(signed, V ?? own, catalogueOf(items));
}

/** Touched one after the other. */
function inOrder(ids: readonly string[]): Map<string, number> {
  return new Map(ids.map((id, at) => [id, at]));
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
  assert.deepEqual(found[0]?.tags, traitsOf(Number(found[0]?.id.slice(-4))));
  const reasons = found.flatMap(({ because }) => because);
  assert.ok(reasons.every((reason) => reason.kind === "tag" || own.includes(reason.id)));
  assert.deepEqual(new Set(reasons.map(({ kind }) => kind)), new Set(["item", "tag"]));
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
  await assert.rejects(client.recommend(), { name: "StoreError", message: /no model/ });
  await client.refresh();
  for (const n of [0, -1, 1.5, Number.NaN]) {
    await assert.rejects(client.recommend(n), { name: "SettingsError" });
  }
});

test("who touched everything is recommended nothing", async (t) => {
  const world = await World.begin(t);
  const client = await world.open();
  await client.record(Array.from({ length: ITEMS }, (_, n) => item(n)));
  await client.refresh();
  assert.deepEqual(await client.recommend(5), []);
});

test("reasons are the largest positive parts, as shares of all positive ones", async (t) => {
  const release = await releaseOf(await World.begin(t));
  const random = numbers(11);
  const lengths = new Set<number>();
  for (let round = 0; round < 30; round += 1) {
    const own = [...Array(ITEMS).keys()].filter(() => random() < 0.05 + round / 60);
    const touched = inOrder(own.map(item));
    for (const each of recommendations(release, touched, 5)) {
      const all = speakingFor(release, touched, Number(each.id.slice(-4)));
      assert.deepEqual(each.because, all.slice(0, 3));
      assert.ok(all.every(({ share }) => share > 0 && share <= 1));
      lengths.add(each.because.length);
    }
  }
  assert.ok(lengths.has(3));
});

/** Everything that speaks for an item, the largest first, from the parts of its score. */
function speakingFor(release: Release, touched: Map<string, number>, row: number): Reason[] {
  const { tags } = release.catalogue;
  const { solved, rows, columns } = personalOf(release, touched);
  const parts = partsOf(release.wide, solved, row);
  const own = rows.map((number, at) => {
    const reason = { kind: "item", id: item(number), title: `Title ${number}` } as const;
    return { ...reason, share: parts.own[at] ?? 0 };
  });
  const ofTags = [...parts.tags].filter(([column]) => columns.has(column));
  const theirs = ofTags.map(([column, share]) => {
    const { kind = "", name = "" } = tags.names[column] ?? {};
    return { kind: "tag", tag: kind, name, share } as const;
  });
  const speaking = [...own, ...theirs].filter(({ share }) => share > 0);
  const total = speaking.reduce((sum, { share }) => sum + share, 0);
  return speaking
    .sort((a, b) => b.share - a.share)
    .map((reason) => ({ ...reason, share: reason.share / total }));
}

test("a tag is a reason only for who has touched an item that has it", async (t) => {
  const onlyOdd = (n: number): Traits => (n % 2 === 0 ? { genre: ["even"] } : { genre: ["odd"] });
  const release = await releaseOf(await World.begin(t), undefined, onlyOdd);
  const found = recommendations(release, inOrder([1, 3, 5].map(item)), ITEMS);
  const named = found.flatMap(({ because }) => because).filter(({ kind }) => kind === "tag");
  assert.ok(named.length > 0);
  assert.ok(named.every((reason) => reason.kind === "tag" && reason.name === "odd"));
});

test("what was touched last counts most, and recording it again moves it there", async (t) => {
  const world = await World.begin(t);
  const client = await world.open();
  await client.refresh();
  const orders: string[][] = [];
  for (const id of [item(3), item(7), item(20), item(3)]) {
    await client.record([id]);
    orders.push((await client.recommend(ITEMS)).map((each) => each.id));
  }
  const release = await releaseOf(world);
  const wanted = recommendations(release, inOrder([item(7), item(20), item(3)]), ITEMS);
  assert.deepEqual(
    orders[3],
    wanted.map(({ id }) => id),
  );
  assert.notDeepEqual(orders[2], orders[3]);
});

test("before the first reports tags alone speak, and without tags nothing does", async (t) => {
  const world = await World.begin(t, { reports_behind: 0 });
  const touched = inOrder([item(3), item(9)]);
  const found = recommendations(await releaseOf(world), touched, 5);
  const reasons = found.flatMap(({ because }) => because);
  assert.ok(reasons.length > 0 && reasons.every(({ kind }) => kind === "tag"));
  const untagged = recommendations(await releaseOf(world, undefined, UNTAGGED), touched, 3);
  assert.deepEqual(
    untagged.map(({ id, because }) => [id, because]),
    [0, 1, 2].map((n) => [item(n), []]),
  );
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
    const release = await releaseOf(world, { values, rows: ITEMS, columns: 2 });
    const found = recommendations(release, new Map([["not known", 1]]), 5);
    assert.deepEqual(
      found.map(({ id }) => id),
      [0, 1, 2, 3, 4].map(item),
    );
    assert.deepEqual(
      found.flatMap(({ because }) => because),
      [],
    );
  }
});

test("among equals the catalogue's order holds", async (t) => {
  const world = await World.begin(t);
  const values = new Float32Array(ITEMS * FACTORS).fill(0.25);
  const release = await releaseOf(world, { values, rows: ITEMS, columns: FACTORS }, UNTAGGED);
  const found = recommendations(release, inOrder([item(1)]), 4).map(({ id }) => id);
  assert.deepEqual(found, [0, 2, 3, 4].map(item));
});
