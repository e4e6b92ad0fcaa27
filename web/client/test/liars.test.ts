/**
 * Servers and proxies that lie: nothing is sent, nothing spent, nothing stored.
 */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { concatenate, encodeUtf8, hashSha256, toHex } from "../src/bytes.js";
import { TermsError, UnavailableError, UntrustedError } from "../src/errors.js";
import { MAX_SIGNED_MANIFEST_BYTES } from "../src/manifest.js";
import { computeSummary } from "../src/promise.js";
import {
  AT_ONCE,
  COST,
  charges,
  DAY,
  type Device,
  dump,
  encodeCatalogue,
  encodeModel,
  FACTORS,
  hashOf,
  ITEMS,
  item,
  itemMatrix,
  newSigningKey,
  REPORTS,
  reply,
  seeEpochTwo,
  TERMS,
  toBatches,
  traitsOf,
  World,
} from "./world.js";

type Lie = (world: World) => Promise<unknown>;

const other = async (epoch: number, values: Float32Array, columns: number, world: World) =>
  world.publish(epoch, { model: await world.add(encodeModel(values, ITEMS, columns)) });

/** The requests that it takes to see a lie, and the lie. */
const LIES: Record<string, [string[], Lie]> = {
  "another key": [
    ["manifest"],
    async (world) => {
      world.manifest = new Uint8Array((await world.signed(3, {}, await newSigningKey())).raw);
    },
  ],
  "a flipped bit": [
    ["manifest"],
    async (world) => {
      const { raw } = await world.publish(3);
      world.manifest = raw.map((byte, at) => (at === raw.length - 9 ? byte ^ 1 : byte));
    },
  ],
  "no manifest at all": [
    ["manifest"],
    async (world) => {
      world.manifest = encodeUtf8("<html>Welcome to the hotel</html>".repeat(10));
    },
  ],
  "an endless manifest": [
    ["manifest"],
    async (world) => {
      world.manifest = new Uint8Array(MAX_SIGNED_MANIFEST_BYTES + 1);
    },
  ],
  "an older epoch": [["manifest"], (world) => world.publish(1)],
  "two manifests of one epoch": [["manifest"], (world) => world.publish(2, { reports_behind: 1 })],
  "another model": [
    ["manifest", "models"],
    async (world) => {
      const { model } = (await world.publish(3)).fields;
      world.files.set(String(model), encodeModel(itemMatrix(2), ITEMS, FACTORS));
    },
  ],
  "another catalogue": [
    ["manifest", "models", "catalogues"],
    async (world) => {
      const wanted = await hashOf(encodeUtf8("catalogue of nobody"));
      world.files.set(wanted, encodeCatalogue(ITEMS));
      await world.publish(3, { catalogue: wanted });
    },
  ],
  "a catalogue of another length": [
    ["manifest", "models", "catalogues", "shelf", "taken"],
    async (world) => world.publish(3, { catalogue: await world.add(encodeCatalogue(ITEMS - 1)) }),
  ],
  "no catalogue": [
    ["manifest", "models", "catalogues", "shelf", "taken"],
    async (world) => world.publish(3, { catalogue: await world.add(encodeUtf8("[]")) }),
  ],
  "another patch": [
    ["manifest", "patches"],
    async (world) => {
      const { model_patch } = (await world.publish(3, { model_patch: await hashOf(BEFORE) }))
        .fields;
      world.files.set(String(model_patch), AFTER);
    },
  ],
  "an endless patch": [
    ["manifest", "patches"],
    async (world) => {
      await world.publish(3, { model_patch: await world.add(new Uint8Array(2 ** 22 + 1)) });
    },
  ],
  "an endless model": [
    ["manifest", "models"],
    async (world) => world.publish(3, { model: await world.add(new Uint8Array(4405)) }),
  ],
  "a model of another shape": [
    ["manifest", "models", "shelf", "taken"],
    (world) => other(3, new Float32Array(ITEMS * (FACTORS + 1)), FACTORS + 1, world),
  ],
  "another shape of the same model": [
    ["manifest", "shelf", "taken"],
    async (world) => {
      const model = await world.add(encodeModel(itemMatrix(2), ITEMS, FACTORS));
      await world.publish(3, { model, items: ITEMS - 1 });
    },
  ],
  "a key of small order": [
    ["manifest", "models", "shelf", "taken"],
    (world) => world.publish(3, { public_key: "00".repeat(32) }),
  ],
  "a number that is none": [
    ["manifest", "models", "shelf", "taken"],
    (world) => {
      const values = itemMatrix(3).map((value, at) => (at === 13 ? Number.NaN : value));
      return other(3, values, FACTORS, world);
    },
  ],
  "one field worse and all others better": [
    ["manifest", "shelf"], // what was withdrawn is gone all the same
    async (world) => {
      const { shelf } = world;
      const terms = { reports: 5, epsilon: 0.1, epochs: 1, share: 0.01, min_clients: 90 };
      await world.publish(3, { terms });
      world.shelf = shelf;
    },
  ],
};

/** Return everything that is stored, except the terms that are asked for and wait for a yes. */
async function dumpAccepted(world: World) {
  const rows = await dump(world.factory);
  return { ...rows, settings: rows.settings?.map((row) => ({ ...(row as object), asked: null })) };
}

for (const [name, [calls, lie]] of Object.entries(LIES)) {
  test(`${name}: refused, and nothing changes`, async (t) => {
    const [world, client] = await seeEpochTwo(t);
    const [before, recommended] = [await dumpAccepted(world), await client.recommend(5)];
    await lie(world);
    for (const attempt of [
      () => client.sync(AT_ONCE),
      () => client.refresh(),
      () => client.sync(AT_ONCE),
    ]) {
      world.requests.length = 0;
      await assert.rejects(attempt(), UntrustedError);
      assert.deepEqual(world.calls(), calls);
    }
    assert.deepEqual(world.received, []);
    assert.deepEqual(await dumpAccepted(world), before);
    assert.deepEqual(await client.recommend(5), recommended);
    await world.publish(3);
    assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
  });
}

test("an error of a sync that has sent what waited does not say that nothing was sent", async (t) => {
  const lies: Lie[] = [
    (world) => world.publish(1),
    (world) => world.publish(3, { reports_behind: 1 }),
    async (world) => {
      world.manifest = world.manifest.map((byte, at) => (at === 70 ? byte ^ 1 : byte));
    },
  ];
  for (const lie of lies) {
    const [world, client] = await seeEpochTwo(t);
    await world.publish(3);
    world.answer = toBatches(503);
    await assert.rejects(client.sync(AT_ONCE), UnavailableError);
    world.answer = () => false;
    await lie(world);
    await assert.rejects(client.sync(AT_ONCE), (error) => {
      assert.ok(error instanceof UntrustedError);
      assert.doesNotMatch(error.message, /nothing/iu);
      return true;
    });
    assert.equal(world.received.length, 1);
  }
});

test("an older epoch is refused also after forgetting", async (t) => {
  const [world, client] = await seeEpochTwo(t);
  await client.forget();
  for (const name of ["an older epoch", "two manifests of one epoch"]) {
    await LIES[name]?.[1](world);
    await assert.rejects(client.sync(AT_ONCE), UntrustedError);
  }
  await world.publish(2);
  assert.equal((await client.sync(AT_ONCE)).outcome, "not open");
});

test("a seed, and what is loud within its share, need no consent", async (t) => {
  const [world, client] = await seeEpochTwo(t);
  const parameters = { ...TERMS.parameters, directions_seed: 2 ** 53 - 1, loud: 38 };
  await world.publish(3, { terms: { parameters } }); // 38 of 384 are less than a tenth
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
  assert.deepEqual((await client.status()).terms, TERMS);
  world.now += DAY;
  await world.publish(4, { terms: { parameters: { ...parameters, loud: 39 } } });
  await assert.rejects(client.sync(AT_ONCE), /more directions are loud than the terms allow/);
});

test("new terms hold once exactly they were accepted", async (t) => {
  const [world, client] = await seeEpochTwo(t);
  const dear = { epsilon: 5, reports: 2, min_clients: 5 };
  await world.publish(3, { terms: dear });
  await assert.rejects(client.sync(AT_ONCE), /changed its terms/);
  const error = await client.refresh().catch((caught: unknown) => caught);
  assert.ok(error instanceof TermsError);
  assert.equal(error.worse.length, 3);
  assert.deepEqual(error.terms, { ...TERMS, epsilon: 5, reports: 2, minClients: 5 });
  await client.accept(error.terms);
  assert.equal((await client.sync(AT_ONCE)).spentEpsilon, 10);
  const accepted = { ...TERMS, epsilon: 5, reports: 2, minClients: 5 };
  assert.deepEqual((await client.status()).terms, accepted);
  world.now += DAY;
  await world.publish(4, { terms: { ...dear, reports: 3 } });
  await assert.rejects(client.sync(AT_ONCE), /3 reports, not 2/);
});

test("what was accepted is the bound, whatever manifests said before", async (t) => {
  const [world, client] = await seeEpochTwo(t);
  await world.publish(3, { terms: { epsilon: 1 } });
  await assert.rejects(client.refresh(), TermsError);
  await client.accept({ ...TERMS, epsilon: 1 });
  await world.publish(4);
  await assert.rejects(client.sync(AT_ONCE), (error) => {
    assert.ok(error instanceof TermsError);
    assert.deepEqual(error.terms, TERMS);
    assert.equal(error.worse.length, 1);
    return true;
  });
  assert.deepEqual(world.received, []);
});

test("nothing is reported before a yes, which binds what was on its way then too", async (t) => {
  const world = await World.begin(t);
  const window = { opens: 0, closes: 4_000_000 };
  await world.publish(2, window);
  const client = await world.open();
  t.after(() => client.close());
  const synced = await client.sync(AT_ONCE);
  assert.equal(synced.outcome, "not accepted");
  assert.equal(synced.outcome, "not accepted");
  assert.deepEqual([(await client.status()).terms, (await client.status()).plan], [null, null]);
  await world.publish(3, { ...window, terms: { epsilon: 5 } });
  const refreshing = client.refresh();
  await client.accept(TERMS);
  await assert.rejects(refreshing, TermsError);
  await assert.rejects(client.sync(AT_ONCE), TermsError);
  assert.deepEqual([world.received, (await client.status()).terms], [[], TERMS]);
});

test("what are no terms cannot be accepted", async (t) => {
  const world = await World.begin(t);
  const client = await world.open();
  const { share: _, ...missing } = TERMS;
  for (const wrong of [missing, { ...TERMS, epsilon: -1 }, { ...TERMS, mechanism: "louder" }]) {
    await assert.rejects(client.accept(wrong as typeof TERMS), { name: "SettingsError" });
  }
  assert.equal((await client.status()).terms, null);
});

test("cheaper reports under a limit are no more than were told", async (t) => {
  for (const cheaper of [{ epsilon: 0.25 }, { reports: 1 }]) {
    const world = await World.begin(t);
    const name = JSON.stringify(cheaper);
    const client = await world.client({ limit: 1.5 * COST, name });
    assert.equal(computeSummary(TERMS, [], 1.5 * COST).reports, REPORTS);
    for (const epoch of [2, 3, 4, 5]) {
      world.now = (epoch + 0.5) * DAY;
      await world.publish(epoch, { terms: cheaper });
      await assert.rejects(client.sync(AT_ONCE), TermsError);
    }
    assert.deepEqual(await charges(world, name), []);
  }
});

test("better terms are taken and do not become the bound", async (t) => {
  const [world, client] = await seeEpochTwo(t);
  await world.publish(3, { terms: { epochs: 10, min_clients: 100 } });
  assert.equal((await client.sync(AT_ONCE)).spentEpsilon, COST);
  assert.deepEqual((await client.status()).terms, TERMS);
  world.now += DAY;
  await world.publish(4);
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
});

test("a hotel that answers everything is not believed", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  world.answer = (response) => reply(response, 200, "Welcome to the hotel");
  await assert.rejects(client.sync(AT_ONCE), UntrustedError);
  world.answer = () => false;
  await client.refresh();
  world.answer = (response, call) => call === "batches" && reply(response, 200, "Welcome");
  await assert.rejects(client.sync(AT_ONCE), { name: "RefusedError" });
  assert.equal((await client.lastBatch())?.state, "charged");
});

// Keys that follow each other.

test("a key that the trusted one names is trusted from then on, and nobody leads back", async (t) => {
  const [world, client] = await seeEpochTwo(t);
  const old = await world.signed(4);
  const next = await world.turnKey();
  await world.publish(3);
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
  const [settings] = (await dump(world.factory)).settings as { key: string; trusted: string }[];
  assert.deepEqual([settings?.key, settings?.trusted], [world.key, next]);
  world.manifest = new Uint8Array(old.raw); // the thief of the first key
  await assert.rejects(client.refresh(), /signed neither by the pinned verification key/);
  const later = await world.turnKey();
  await world.publish(5);
  await client.refresh();
  const [now] = (await dump(world.factory)).settings as { trusted: string }[];
  assert.equal(now?.trusted, later);
  assert.equal((await client.recommend(3)).length, 3); // what is stored is still believed
  assert.equal((await client.release(1))?.manifest.epoch, 1); // of before any other key
  (await world.open()).close(); // the application still names the first key
});

test("a key that another one names is not trusted", async (t) => {
  const [world, client] = await seeEpochTwo(t);
  const stranger = await World.begin(t);
  await stranger.turnKey();
  world.manifest = new Uint8Array((await stranger.signed(3)).raw);
  await assert.rejects(client.refresh(), /a key statement is not signed/);
  const [settings] = (await dump(world.factory)).settings as { trusted: string }[];
  assert.equal(settings?.trusted, world.key);
});

// The pinned key.

test("another key or another proxy is refused in plain words, and nobody is asked", async (t) => {
  const world = await World.begin(t);
  (await world.client()).close();
  const before = await dump(world.factory);
  await assert.rejects(world.open({ key: "00".repeat(32) }), (error) => {
    assert.ok(error instanceof UntrustedError);
    const trusted = "than the one this browser has trusted since 1970-01-02";
    assert.match(error.message, new RegExp(`^This address now names another key ${trusted}`));
    return true;
  });
  await assert.rejects(world.open({ proxy: "https://other.example" }), (error) => {
    assert.ok(error instanceof UntrustedError);
    assert.match(error.message, /https:\/\/other\.example is named/);
    return true;
  });
  assert.deepEqual(world.requests, []);
  assert.deepEqual(await dump(world.factory), before);
  assert.deepEqual(await (await world.open()).touched(), [item(3), item(7), item(20)]);
});

test("the model of an earlier epoch, as signed, and nothing of it stored; null if it is gone", async (t) => {
  const [world, client] = await seeEpochTwo(t);
  const before = await dump(world.factory);
  const release = await client.release(1);
  assert.equal(release?.manifest.epoch, 1);
  assert.deepEqual(release?.V.values, itemMatrix(1));
  assert.deepEqual(world.calls(), ["manifests", "models"]);
  assert.deepEqual(await dump(world.factory), before);
  assert.equal(await client.release(7), null);
  world.files.delete(String((await world.signed(1)).fields.model));
  assert.equal(await client.release(1), null);
});

test("an earlier epoch is believed no more than the present one", async (t) => {
  const [world, client] = await seeEpochTwo(t);
  const other = await world.signed(1, {}, await newSigningKey());
  world.earlier.set(1, other.raw);
  await assert.rejects(client.release(1), /signed neither by the pinned verification key/);
  world.earlier.set(1, (await world.signed(2)).raw);
  await assert.rejects(
    client.release(1),
    /epoch 1 was requested, but the proxy sent the one of epoch 2/,
  );
  const { raw, fields } = await world.signed(1);
  world.earlier.set(1, raw);
  world.files.set(String(fields.model), encodeModel(itemMatrix(5), ITEMS, FACTORS));
  await assert.rejects(client.release(1), /is not the one that the server signed/);
  world.files.set(String(fields.model), new Uint8Array(5000));
  await assert.rejects(client.release(1), /longer than 4404 bytes/);
  world.earlier.set(1, new Uint8Array(MAX_SIGNED_MANIFEST_BYTES + 1));
  await assert.rejects(client.release(1), /longer than 19525 bytes/);
});

test("of the present epoch nothing is asked, but where it was forgotten", async (t) => {
  const [world, client] = await seeEpochTwo(t);
  assert.deepEqual((await client.release(2))?.V.values, itemMatrix(2));
  assert.deepEqual(world.requests, []);
  await client.forget();
  world.earlier.set(2, (await world.signed(2, { reports_behind: 1 })).raw);
  await assert.rejects(client.release(2), /two different manifests of epoch 2/);
});

const GONE = item(5);

/** Serve a catalogue of all items except `GONE`, and new ones; return its hash. */
async function addWithoutGone(world: World, ...added: string[]): Promise<string> {
  const { items } = JSON.parse(new TextDecoder().decode(encodeCatalogue(ITEMS)));
  const left = items.filter(({ id }: { id: string }) => id !== GONE);
  const ids = added.length > 0 ? added : ["new"];
  const more = ids.map((id) => ({ id, title: "New", tags: traitsOf(1) }));
  return world.add(encodeUtf8(JSON.stringify({ version: 2, items: [...left, ...more] })));
}

const recommendIds = async (client: Device) => (await client.recommend(100)).map(({ id }) => id);

test("what is withdrawn is on no list after the next look, and what is new may be", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  await client.refresh();
  assert.ok((await recommendIds(client)).includes(GONE));
  await world.layOut(DAY + 60, await addWithoutGone(world));
  await client.refresh();
  const ids = await recommendIds(client);
  assert.ok(!ids.includes(GONE));
  assert.ok(ids.includes("new"));
  assert.equal((await client.catalogue()).at(-1)?.id, "new");
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent", "reports have the epoch's catalogue");
});

test("a shelf that does not hold changes no list", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  const first = toHex(await hashSha256(encodeCatalogue(ITEMS)));
  const honest = await addWithoutGone(world);
  const many = await world.add(encodeCatalogue(2 * ITEMS + 1));
  const stranger = await newSigningKey();
  await world.layOut(DAY + 60, honest);
  await client.refresh();
  const before = await recommendIds(client);
  const lies: [string, () => Promise<unknown>][] = [
    ["older", () => world.layOut(DAY + 59, first)],
    ["a second of the same time", () => world.layOut(DAY + 60, first)],
    ["a stranger's", () => world.layOut(DAY + 61, first, stranger)],
    ["larger than the terms allow", () => world.layOut(DAY + 61, many)],
    ["no catalogue", async () => world.layOut(DAY + 61, await world.add(encodeUtf8("{}")))],
    ["a manifest", async () => (world.shelf = new Uint8Array(world.manifest))],
  ];
  for (const [name, lie] of lies) {
    await lie();
    for (const _ of [1, 2]) await assert.rejects(client.refresh(), UntrustedError, name);
    assert.deepEqual(await recommendIds(client), before, name);
  }
  await client.forget();
  await world.layOut(DAY + 59, first);
  await assert.rejects(client.refresh(), UntrustedError, "forgotten, and seen all the same");
});

test("a shelf that a wrong clock has signed leads nobody astray", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  await world.layOut(Math.ceil(Date.now() / 1000) + 2 * DAY, await addWithoutGone(world));
  await assert.rejects(client.refresh(), UntrustedError);
  await world.layOut(DAY + 60, await addWithoutGone(world));
  await client.refresh();
  assert.ok(!(await recommendIds(client)).includes(GONE));
});

test("whoever refuses worse terms sees no withdrawn item", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  await client.refresh();
  await world.publish(2, { terms: { epsilon: 9 } });
  for (const published of [61, 62, 63]) {
    await world.layOut(2 * DAY + published, await addWithoutGone(world, `new ${published}`));
    for (const _ of [1, 2]) await assert.rejects(client.refresh(), TermsError);
    assert.ok(!(await recommendIds(client)).includes(GONE));
  }
  assert.equal(
    (await dump(world.factory)).files?.length,
    4,
    "a model, two catalogues and a manifest",
  );
});

test("nor does whoever refuses a larger catalogue", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  await client.refresh();
  const before = await recommendIds(client);
  await world.publish(2, { terms: { max_items: 10 * ITEMS } });
  const many = Array.from({ length: 2 * ITEMS }, (_, number) => `new ${number}`);
  await world.layOut(2 * DAY + 61, await addWithoutGone(world, ...many));
  for (const _ of [1, 2]) {
    const error = await client.refresh().catch((caught: unknown) => caught);
    assert.ok(error instanceof TermsError);
    assert.deepEqual(
      new Set(await recommendIds(client)),
      new Set(before.filter((id) => id !== GONE)),
      "what it knew, less what was withdrawn",
    );
  }
  const error = await client.refresh().catch((caught: unknown) => caught);
  await client.accept((error as TermsError).terms);
  await client.refresh();
  assert.ok((await recommendIds(client)).includes("new 0"));
});

/** Publish epoch 3 with a patch to its model, made of these bytes; return what a client requests. */
async function callsWithPatch(t: TestContext, patch: Uint8Array): Promise<string[]> {
  const [world, client] = await seeEpochTwo(t);
  await world.publish(3, { model_patch: await world.add(patch) });
  await client.refresh();
  const V = (await client.release(3))?.V.values;
  assert.deepEqual(V, itemMatrix(3), "it is the model that the manifest names");
  return world.calls();
}

/** Encode a patch with one base. */
async function encodePatch(base: Uint8Array, slices: number[], literals: Uint8Array) {
  const numbers = new Uint8Array(Uint32Array.from([slices.length / 2, ...slices]).buffer);
  const head = Uint8Array.of(...encodeUtf8("SVP2"), 1, 0, 0, 0);
  return concatenate([head, await hashSha256(base), numbers, literals]);
}

const BEFORE = encodeModel(itemMatrix(2), ITEMS, FACTORS);
const AFTER = encodeModel(itemMatrix(3), ITEMS, FACTORS);
const LOOK = ["shelf", "taken"];

test("a model is made from the one before, and only by a client that has that", async (t) => {
  // All from the literals, except the first bytes.
  const patch = await encodePatch(BEFORE, [0, 8, BEFORE.length + 8, AFTER.length - 8], AFTER);
  assert.deepEqual(await callsWithPatch(t, patch), ["manifest", "patches", ...LOOK]);
  const other = await encodePatch(encodeUtf8("of nobody"), [0, 1], AFTER);
  assert.deepEqual(await callsWithPatch(t, other), ["manifest", "patches", "models", ...LOOK]);
  const world = await World.begin(t);
  await world.publish(3, { model_patch: await world.add(patch) });
  await (await world.accepted()).refresh();
  assert.ok(!world.calls().includes("patches"), "a new client has nothing that it could patch");
});

test("a client that has forgotten requests what a new one does", async (t) => {
  const [world, client] = await seeEpochTwo(t);
  await client.forget();
  await world.publish(3, { model_patch: await world.add(encodeUtf8("patch")) });
  await client.refresh();
  assert.deepEqual(world.calls(), ["manifest", "models", "catalogues", ...LOOK]);
});

test("a patch that the server signed, but that gives something else, changes nothing", async (t) => {
  for (const [slices, literals] of [
    [[0, BEFORE.length], BEFORE],
    [[0, 2 ** 32 - 1], AFTER],
    [[BEFORE.length + 1, AFTER.length], AFTER],
    [Array.from({ length: 2000 }, (_, at) => (at % 2) * BEFORE.length), BEFORE],
    [[], AFTER],
  ] as [number[], Uint8Array][]) {
    const patch = await encodePatch(BEFORE, slices, literals);
    const calls = await callsWithPatch(t, patch);
    assert.deepEqual(calls, ["manifest", "patches", ...LOOK, "models"], `${slices.slice(0, 4)}`);
  }
});

test("a catalogue is made from the one before, by the patch of the shelf", async (t) => {
  const [world, client] = await seeEpochTwo(t);
  const [before, after] = [encodeCatalogue(ITEMS), encodeCatalogue(ITEMS + 1)];
  const same = before.findIndex((byte, at) => byte !== after[at]);
  const slices = [0, same, before.length, after.length - same];
  world.patch = await world.add(await encodePatch(before, slices, after.subarray(same)));
  await world.layOut(3 * DAY, await world.add(after));
  await client.refresh();
  assert.equal((await client.catalogue()).length, ITEMS + 1);
  assert.deepEqual(world.calls(), ["manifest", "shelf", "patches", "taken"]);
});

test("a shelf that is kept back brings nothing back that a manifest has not", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  await client.refresh();
  const { shelf } = world;
  await world.publish(2, { catalogue: await addWithoutGone(world) });
  world.shelf = shelf;
  await client.refresh();
  assert.ok(!(await recommendIds(client)).includes(GONE));
});
