/**
 * Reports of accounts: a token is asked for in one epoch and spent in the next, never in one visit, once for
 * each account, and for nobody whose coin or ledger says no.
 */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { Outcome } from "../src/agreement.js";
import { toHex } from "../src/bytes.js";
import { STEP_SECONDS } from "../src/grid.js";
import { computeTokenChance, TOKEN_LEAD_SECONDS, type Token } from "../src/timing.js";
import { Issuer, tokenMakerFor } from "./issuer.js";
import { manifestWith, plans } from "./vectors.js";
import { Browser, type Tab } from "./virtual.js";
import {
  type Changes,
  DAY,
  dump,
  IS_NIGHTLY,
  item,
  REPORTS,
  reply,
  TERMS,
  World,
} from "./world.js";

const ACCOUNTS = { ...TERMS, accounts: true };
const ALWAYS = { opens: 0, closes: 900 * DAY };
/** Seconds: long enough to send or to ask, and to look again. */
const VISIT = 40;
const HOUR = 3_600;

class Service {
  readonly issuer = new Issuer();
  #epoch = 0;

  private constructor(readonly world: World) {
    world.answer = this.issuer.answer;
  }

  static async begin(test: TestContext, changes: Changes = {}): Promise<Service> {
    const service = new Service(await World.begin(test));
    await service.turn(changes);
    return service;
  }

  /** Publish the next epoch. */
  turn(changes: Changes = {}) {
    this.#epoch += 1;
    const fields = { ...ALWAYS, ...this.issuer.fields(this.#epoch), ...changes };
    const terms = { accounts: true, ...changes.terms };
    return this.world.publish(this.#epoch, { ...fields, terms });
  }
}

/** Open a tab and close it after a visit; return its outcome and what it posted. */
async function visit(
  browser: Browser,
  { who = 1, pace = 10, terms = ACCOUNTS, ...more }: Record<string, unknown> & Partial<Visit> = {},
  during: (tab: Tab) => Promise<unknown> = async () => {},
) {
  const { virtual, requests } = browser;
  const tokenMaker = who === null ? null : tokenMakerFor(who, virtual);
  const tab = await browser.tab({ pace, tokenMaker, ...more });
  if (terms !== null) await tab.accept(terms);
  const outcomes: Outcome[] = [];
  tab.hear = ({ lastSync: synced }) => {
    if (synced !== null) outcomes.push(synced.outcome);
  };
  const before = requests.length;
  tab.show();
  await virtual.pass(VISIT);
  await during(tab);
  tab.show(true, false);
  await virtual.pass(VISIT);
  const posted = requests.slice(before).flatMap(([, what]) => what.match(/(?<=POST .*)\w+$/) ?? []);
  const outcome = outcomes.find((outcome) => outcome === "sent") ?? outcomes.at(-1);
  return { outcome, posted, tab };
}

interface Visit {
  who: number | null;
  pace: number;
  terms: typeof ACCOUNTS | null;
}

async function stored(browser: Browser): Promise<{ tokens: Token[]; charges: unknown[] }> {
  return (await dump(browser.factory)) as unknown as { tokens: Token[]; charges: unknown[] };
}

test("a token is asked for in one epoch and spent in the next, in visits of their own", async (t) => {
  const service = await Service.begin(t);
  const { world, issuer } = service;
  const browser = new Browser(world);
  const first = await visit(browser, {}, async (tab) => {
    await service.turn();
    tab.show();
    await browser.virtual.pass(VISIT);
  });
  // Only one: a page that stays open sends no batch, and would use up its account's turns.
  assert.deepEqual([first.outcome, first.posted], ["next visit", ["tokens"]]);
  const last = IS_NIGHTLY ? 4 : 3;
  for (let epoch = 2; epoch <= last; epoch += 1) {
    const sends = await visit(browser);
    assert.deepEqual([sends.outcome, sends.posted], ["sent", ["batches"]]);
    const batch = world.received.at(-1) ?? new Uint8Array();
    assert.equal(batch.length, 56 + 64 + 52 * REPORTS);
    assert.ok(await issuer.redeems(epoch, batch), `${epoch}`);
    assert.ok(!(await issuer.redeems(epoch + 1, batch)));
    const soon = await visit(browser); // the next click in a shop
    assert.deepEqual([soon.outcome, soon.posted], ["already sent", []]);
    await browser.virtual.pass(HOUR);
    const asks = await visit(browser);
    assert.deepEqual([asks.outcome, asks.posted], ["already sent", ["tokens"]]);
    await service.turn();
  }
  const { tokens, charges } = await stored(browser);
  const epochs = tokens.map(({ epoch }) => epoch);
  assert.deepEqual([epochs, charges.length], [[last, last + 1], last - 1]);
});

test("a look goes on while a token is waited for, and the moment is within the jitter", async (t) => {
  const { world } = await Service.begin(t);
  for (let seed = 1; seed <= 5; seed += 1) {
    const browser = new Browser(world, seed);
    const begun = browser.virtual.time;
    await visit(browser, { who: seed });
    const [[at = 0] = []] = browser.requests.filter(([, what]) => what === "POST /v2/tokens");
    const since = at - begun - 5 * STEP_SECONDS - TOKEN_LEAD_SECONDS; // after five questions
    assert.ok(since >= 0 && since <= 5 + 3 * STEP_SECONDS, `${since}`);
  }
});

test("of two devices of an account one has the token, and the other sits out for nothing", async (t) => {
  const service = await Service.begin(t);
  const devices = [1, 2].map((seed) => new Browser(service.world, seed));
  for (const device of devices) {
    const { posted } = await visit(device);
    assert.deepEqual(posted, ["tokens"]); // once: a device that was refused does not ask again
  }
  await service.turn();
  const outcomes = [];
  for (const device of devices) outcomes.push((await visit(device)).outcome);
  assert.deepEqual(outcomes, ["sent", "no token"]);
  assert.deepEqual(
    (await Promise.all(devices.map(stored))).map(({ charges }) => charges.length),
    [1, 0],
  );
});

test("an answer that was not heard is asked for again, with the same element", async (t) => {
  const service = await Service.begin(t);
  const { world, issuer } = service;
  const browser = new Browser(world);
  world.answer = async (response, call, body) => {
    if ((call as string) !== "tokens") return false;
    const lost = { writeHead: () => {}, end: () => response.destroy() };
    return issuer.answer(lost as unknown as typeof response, call, body);
  };
  await visit(browser);
  world.answer = issuer.answer;
  await visit(browser);
  assert.ok(issuer.asked.length >= 2);
  assert.equal(new Set(issuer.asked.map(({ element }) => element)).size, 1);
  await service.turn();
  assert.equal((await visit(browser)).outcome, "sent");
});

test("an answer that a proxy kept back is not used", async (t) => {
  const service = await Service.begin(t);
  const { world, issuer } = service;
  const browser = new Browser(world);
  world.answer = async (response, call, body) => {
    if ((call as string) === "tokens") browser.virtual.time += 61;
    return issuer.answer(response, call, body);
  };
  await visit(browser);
  assert.ok(issuer.asked.length > 0);
  assert.ok((await stored(browser)).tokens.every(({ answer }) => answer === null));
  world.answer = issuer.answer;
  await visit(browser); // the same element again, and an answer at once
  await service.turn();
  assert.equal((await visit(browser)).outcome, "sent");
});

test("what makes a token of the answer is on disk before the request leaves", async (t) => {
  const { world, issuer } = await Service.begin(t);
  const browser = new Browser(world);
  const seen: string[] = [];
  world.answer = async (response, call, body) => {
    if ((call as string) === "tokens") {
      const [token] = (await stored(browser)).tokens;
      seen.push(toHex(token?.state?.subarray(-32) ?? new Uint8Array()));
    }
    return issuer.answer(response, call, body);
  };
  await visit(browser);
  assert.deepEqual(seen, [issuer.asked[0]?.element]);
});

test("a token that a killed page did not come to make is made in the next visit", async (t) => {
  const service = await Service.begin(t);
  const browser = new Browser(service.world);
  const { request } = tokenMakerFor(1, browser.virtual);
  const killed = { request, finalize: () => new Promise<never>(() => {}) };
  await visit(browser, { tokenMaker: killed });
  const [before] = (await stored(browser)).tokens;
  assert.ok(before?.answer && before.output === null);
  await service.turn();
  assert.equal((await visit(browser)).outcome, "sent");
  assert.ok(await service.issuer.redeems(2, service.world.received[0] ?? new Uint8Array()));
});

test("an answer by another key than the manifest's is no token, and costs nothing", async (t) => {
  const service = await Service.begin(t);
  const { world, issuer } = service;
  const browser = new Browser(world);
  world.answer = async (response, call, body) =>
    (call as string) === "tokens" &&
    reply(response, 200, await issuer.evaluated(7, body.subarray(112)));
  const { posted } = await visit(browser);
  assert.deepEqual(posted, ["tokens"]);
  world.answer = issuer.answer;
  await service.turn();
  assert.equal((await visit(browser)).outcome, "no token");
  assert.deepEqual((await stored(browser)).charges, []);
});

test("a key that the next manifest does not name is no key", async (t) => {
  const service = await Service.begin(t);
  const browser = new Browser(service.world);
  await visit(browser);
  await service.turn({ token_key: toHex(service.issuer.key(9)) });
  assert.equal((await visit(browser)).outcome, "no token");
});

test("without an account there is no token, and lists go on", async (t) => {
  const service = await Service.begin(t);
  const browser = new Browser(service.world);
  await service.turn();
  const { outcome, posted, tab } = await visit(browser, { who: null });
  assert.deepEqual([outcome, posted], ["no token", []]);
  await tab.record([item(1)]);
  assert.equal((await tab.recommend(5)).length, 5);
  const nobody = tokenMakerFor(1, browser.virtual);
  const out = { ...nobody, request: async () => null };
  assert.deepEqual((await visit(browser, { tokenMaker: out })).posted, []);
  const failing = { ...nobody, request: () => Promise.reject(new Error("the backend is away")) };
  assert.deepEqual((await visit(browser, { tokenMaker: failing })).posted, []);
});

test("nobody asks who has not agreed, has paused, or has nothing left", async (t) => {
  const service = await Service.begin(t, { terms: { epochs: 1 } });
  const terms = { ...ACCOUNTS, epochs: 1 };
  const browser = new Browser(service.world);
  assert.deepEqual((await visit(browser, { terms: null })).posted, []);
  assert.deepEqual((await visit(browser, { terms, paused: true, name: "other" })).posted, []);
  assert.deepEqual((await visit(browser, { terms })).posted, ["tokens"]);
  await service.turn({ terms: { epochs: 1 } });
  assert.deepEqual((await visit(browser, { terms })).posted, ["batches"]);
  assert.deepEqual((await visit(browser, { terms })).posted, [], "all is spent");
});

test("a proxy that takes nothing is not asked, and lists are renewed all the same", async (t) => {
  const { world, issuer } = await Service.begin(t);
  const browser = new Browser(world);
  world.answer = async (response, call, body) =>
    call === "taken" ? reply(response, 503) : issuer.answer(response, call, body);
  const { posted } = await visit(browser);
  assert.deepEqual(posted, []);
  world.answer = issuer.answer;
  assert.deepEqual((await visit(browser)).posted, ["tokens"]);
});

test("a proxy that refuses the batch of now gets no token request just before it", async (t) => {
  const service = await Service.begin(t);
  const { world, issuer } = service;
  const browser = new Browser(world);
  await visit(browser); // a token of epoch 2
  await service.turn();
  world.answer = async (response, call, body) =>
    call === "taken" ? reply(response, 410) : issuer.answer(response, call, body);
  const refused = await visit(browser);
  assert.deepEqual([refused.outcome, refused.posted], ["not open", []]);
  world.answer = issuer.answer;
  assert.deepEqual((await visit(browser)).posted, ["batches"]); // the next click
});

test("a pause while the page is asked stops the request", async (t) => {
  const { world } = await Service.begin(t);
  const browser = new Browser(world);
  const tab = await browser.tab({ jitter: 0, tokenMaker: tokenMakerFor(1, browser.virtual) });
  await tab.accept(ACCOUNTS);
  tab.show();
  await browser.virtual.pass(STEP_SECONDS + TOKEN_LEAD_SECONDS - 1);
  await tab.pause(true);
  await browser.virtual.pass(VISIT);
  assert.ok(browser.requests.every(([, what]) => what.startsWith("GET")));
});

test("a pause in another tab while the page is asked stops the request", async (t) => {
  const { world } = await Service.begin(t);
  const browser = new Browser(world);
  const { virtual } = browser;
  const asking = await browser.tab({ jitter: 0, tokenMaker: tokenMakerFor(1, virtual) });
  const other = await browser.tab();
  await asking.accept(ACCOUNTS);
  asking.show();
  await virtual.pass(STEP_SECONDS + TOKEN_LEAD_SECONDS - 1);
  await other.pause(true);
  await virtual.pass(VISIT);
  assert.ok(browser.requests.every(([, what]) => what.startsWith("GET")));
});

test("a pause in another tab waits for a request that has left", async (t) => {
  const { world, issuer } = await Service.begin(t);
  const browser = new Browser(world);
  const { virtual } = browser;
  const asking = await browser.tab({ jitter: 0, tokenMaker: tokenMakerFor(1, virtual) });
  const other = await browser.tab();
  await asking.accept(ACCOUNTS);
  const done: string[] = [];
  world.answer = async (response, call, body) => {
    if ((call as string) === "tokens") {
      void other.pause(true).then(() => done.push("paused"));
      for (let turns = 0; turns < 50; turns += 1) await new Promise((then) => setImmediate(then));
      done.push("answered");
    }
    return issuer.answer(response, call, body);
  };
  asking.show();
  await virtual.pass(VISIT);
  assert.deepEqual(done, ["answered", "paused"]);
});

test("the coin is tossed once, and forgetting is no other toss", async (t) => {
  const share = 2 ** -32;
  const service = await Service.begin(t, { terms: { share } });
  const terms = { ...ACCOUNTS, share };
  const browser = new Browser(service.world);
  for (const _ of [1, 2]) {
    assert.deepEqual((await visit(browser, { terms }, (tab) => tab.forget())).posted, []);
  }
  const [token, ...more] = (await stored(browser)).tokens;
  assert.deepEqual([token?.epoch, token?.wanted, more.length], [2, false, 0]);
});

test("a token is kept when the rest is forgotten", async (t) => {
  const service = await Service.begin(t);
  const browser = new Browser(service.world);
  await visit(browser, {}, (tab) => tab.forget());
  await service.turn();
  assert.equal((await visit(browser)).outcome, "sent");
});

test("no token is asked for soon after a batch, also if it was forgotten meanwhile", async (t) => {
  for (const [answered, left] of [
    [true, "sent"],
    [false, "charged"], // its answer was lost: the proxy may have it
  ] as const) {
    const service = await Service.begin(t);
    const { world, issuer } = service;
    const browser = new Browser(world);
    await visit(browser);
    await service.turn();
    world.answer = async (response, call, body) => {
      if (call !== "batches" || answered) return issuer.answer(response, call, body);
      return !!response.destroy();
    };
    await visit(browser, {}, async (tab) => {
      const { batches } = await dump(browser.factory);
      assert.deepEqual(
        (batches as { state: string }[]).map(({ state }) => state),
        [left],
      );
      void tab.forget(); // it waits for a batch that is being sent
    });
    world.answer = issuer.answer;
    assert.deepEqual((await visit(browser)).posted, [], left);
    await browser.virtual.pass(HOUR);
    assert.deepEqual((await visit(browser)).posted, ["tokens"], left);
  }
});

test("a visit that has asked for a token sends no batch that another tab has made", async (t) => {
  const service = await Service.begin(t);
  const { world, issuer } = service;
  const browser = new Browser(world);
  const { virtual } = browser;
  await visit(browser); // a token of epoch 2
  await service.turn();
  await visit(browser); // its batch
  await virtual.pass(HOUR);
  const asking = await browser.tab({ tokenMaker: tokenMakerFor(1, virtual), pace: 10 });
  asking.show();
  await virtual.pass(VISIT); // a token of epoch 3
  asking.show(true, false);
  await service.turn();
  world.answer = async (response, call, body) =>
    call === "batches" ? !!response.destroy() : issuer.answer(response, call, body);
  const making = await browser.tab({ tokenMaker: tokenMakerFor(1, virtual), pace: 10 });
  making.show();
  await virtual.pass(VISIT);
  making.show(true, false);
  await virtual.pass(VISIT);
  const { batches } = (await dump(browser.factory)) as { batches: { state: string }[] };
  assert.deepEqual(
    batches.map(({ state }) => state),
    ["sent", "charged"],
  );
  world.answer = issuer.answer;
  const before = browser.requests.length;
  asking.show();
  await virtual.pass(2 * VISIT);
  const later = browser.requests.slice(before).map(([, what]) => what);
  assert.ok(later.length > 3 && later.every((what) => what.startsWith("GET")), `${later}`);
});

test("a disk or a page that takes its time does not show", async (t) => {
  const { world } = await Service.begin(t);
  const times: unknown[] = [];
  for (const busy of [0, 0.3, 4]) {
    const browser = new Browser(world);
    const tokenMaker = tokenMakerFor(1, browser.virtual, () => busy);
    const issuer = new Issuer();
    world.answer = issuer.answer;
    await visit(browser, { tokenMaker });
    assert.equal(issuer.asked.length, 1);
    times.push(browser.requests);
  }
  assert.deepEqual(times[1], times[0]);
  assert.deepEqual(times[2], times[0]);
});

test("chances of tokens are those of every other client", () => {
  for (const { share, epochs_left, asks, turns, chance } of plans.tokens) {
    const manifest = manifestWith({
      ...{ epochsLeft: epochs_left, terms: { share } },
      ...(asks ? {} : { publicKey: null }),
    });
    assert.equal(computeTokenChance(manifest, turns), chance);
  }
});
