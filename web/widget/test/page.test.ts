/**
 * What the elements share: when a visitor is asked, what is listed, and that nothing that depends on a
 * history reaches the side of the client that speaks to the proxy.
 */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import {
  type ClientOptions,
  type News,
  type Offer,
  SettingsError,
  StoreError,
} from "sottovoce-client";
import { Page, type PageClient } from "../src/page.js";

const OFFER = { terms: { training: "one" } } as unknown as Offer;
const OTHER = { terms: { training: "other" } } as unknown as Offer;
const NEWS = {
  ...{ offer: OFFER, newOffer: null, terms: null, paused: false, lastSync: null, error: null },
  ...{ manifest: OFFER, charges: [], limit: 1, worse: [], epoch: null },
} as unknown as News;
const SHORT = { trial: false, reports: 1, names: null, guess: null };
const START = { proxy: "https://proxy.example", key: "ab", limit: 5 };

/** Create a page whose client does nothing, with what is asked of it. */
function createPage(
  t: TestContext,
  catalogue: readonly string[] = [],
  stored = new Map<string, string>(),
) {
  const calls: [string, ...unknown[]][] = [];
  const touched: string[] = [];
  const warnings: string[] = [];
  let listen: (news: News) => unknown = () => {};
  const note = async (name: string, ...args: unknown[]) => void calls.push([name, ...args]);
  const items = (ids: readonly string[]) => ids.map((id) => ({ id, title: id, tags: {} }));
  const client: PageClient = {
    record: async (ids) => touched.push(...ids),
    listTouched: async () =>
      items(touched).map((row) => ({ ...row, isKnown: catalogue.includes(row.id) })),
    recommend: async (n) =>
      items(catalogue.filter((id) => !touched.includes(id)).slice(0, n)).map((row) => ({
        ...{ ...row, score: 0, reasons: [] },
      })),
    accept: (terms, limit) => note("accept", terms, limit),
    withdraw: () => note("withdraw"),
    pause: (on) => note("pause", on),
    forget: () => note("forget"),
    summarize: async () => SHORT,
    listSimilar: async (id) =>
      items(catalogue.filter((other) => other !== id)).map((row) => ({
        ...{ ...row, score: 0, reasons: [] },
      })),
    score: async (ids) => ids.map((id) => (touched.includes(id) ? 1 : 0)),
    close: () => {},
  };
  t.mock.method(console, "warn", (text: string) => warnings.push(text));
  t.mock.method(console, "error", (text: string) => warnings.push(text));
  const storage = {
    getItem: (name: string) => stored.get(name) ?? null,
    setItem: (name: string, value: string) => void stored.set(name, value),
  };
  const opened: unknown[] = [];
  const open = async ({ news = () => {}, ...options }: ClientOptions) => {
    opened.push(options);
    listen = news;
    return client;
  };
  const page = new Page(open, () => storage);
  const send = (news: Partial<News> = {}) => listen({ ...NEWS, ...news });
  return { page, calls, warnings, opened, send, client };
}

test("one client for a page, once it knows where to connect", async (t) => {
  const { page, opened } = createPage(t);
  page.start({ texts: { accept: "Yes" } });
  assert.equal(opened.length, 0);
  page.start(START);
  page.start({ ...START, lang: "de" });
  assert.equal(opened.length, 1);
});

test("the token maker is passed on to the client", async (t) => {
  const { page, opened } = createPage(t);
  const tokenMaker = {} as NonNullable<ClientOptions["tokenMaker"]>;
  page.start({ ...START, tokenMaker });
  assert.equal((opened[0] as ClientOptions).tokenMaker, tokenMaker);
});

test("who is asked, and what is displayed otherwise", async (t) => {
  const stored = new Map<string, string>();
  const { page, send } = createPage(t, [], stored);
  page.start(START);
  assert.equal(page.findState(null), "nothing");
  const { terms } = OFFER;
  const shown = (news: Partial<News>, opened: Parameters<Page["findState"]>[0] = null) => {
    send(news);
    return page.findState(opened);
  };
  assert.equal(shown({ offer: null }), "nothing");
  assert.equal(shown({ offer: null, epoch: 1 }), "notParticipating"); // no reports are asked for
  assert.equal(page.question, null);
  assert.equal(shown({}), "asking");
  page.refuse(OFFER);
  assert.equal(shown({}), "notParticipating");
  assert.equal(shown({}, "asking"), "asking");
  assert.equal(shown({ offer: OTHER }), "asking"); // changed terms ask again
  assert.equal(shown({ terms }), "takesPart");
  assert.equal(shown({ terms, offer: null }), "takesPart");
  assert.equal(shown({ terms, paused: true }), "paused");
  assert.equal(shown({ terms, paused: true }, "forgetting"), "forgetting");
  const some = { ...terms, epochs: 3, epsilon: 2, reports: 2 };
  assert.equal(shown({ terms: some, epochs: 2, remainingEpsilon: 4 }), "takesPart");
  assert.equal(shown({ terms: some, epochs: 2, remainingEpsilon: 3.9 }), "allSpent");
  assert.equal(shown({ terms: some, epochs: 3, remainingEpsilon: 9 }), "allSpent");
  const noToken = { outcome: "no token" } as News["lastSync"];
  assert.equal(shown({ terms, lastSync: noToken }), "noToken");
  assert.equal(shown({ terms, lastSync: noToken, paused: true }), "paused");
  assert.equal(
    shown({ terms: some, lastSync: noToken, epochs: 3, remainingEpsilon: 9 }),
    "allSpent",
  );
  assert.equal(shown({ terms, newOffer: OTHER }), "asking");
  assert.equal(shown({ terms, newOffer: OTHER, paused: true }), "paused");
  page.refuse(OTHER);
  assert.equal(shown({ terms, newOffer: OTHER }), "termsChanged");
  assert.equal(createPage(t, [], stored).page.findState(null), "nothing");
});

test("a browser without storage asks again, and works", async (t) => {
  const { send, page } = createPage(t);
  Object.assign(page, { storage: () => assert.fail("blocked") });
  page.start(START);
  send();
  page.refuse(OFFER);
  assert.equal(page.findState(null), "asking");
});

test("what is hidden is never listed, and others take its place", async (t) => {
  const { page, send, client } = createPage(t, ["a", "b", "c", "d", "e"]);
  page.start(START);
  assert.equal(await page.recommend(2), null); // there is no model yet
  send();
  const listed = async (n: number) => (await page.recommend(n))?.map(({ id }) => id);
  page.hide(["a", "c", "x"]);
  await page.markSeen("b");
  assert.deepEqual(await listed(2), ["d", "e"]);
  page.hide([]);
  assert.deepEqual(await listed(2), ["a", "c"]);
  page.hide(["d"]);
  const similar = await page.listSimilar("a", 3);
  assert.deepEqual(
    similar?.map(({ id }) => id),
    ["b", "c", "e"],
  );
  t.mock.method(client, "recommend", async () => {
    throw new StoreError("forgotten");
  });
  assert.equal(await page.recommend(2), null);
});

test("the developer of a page is warned once about ids that the catalogue does not have", async (t) => {
  const { page, send, warnings } = createPage(t, ["a"]);
  page.start(START);
  await page.markSeen("a", "b");
  assert.deepEqual(warnings, []);
  await send();
  await send();
  assert.deepEqual(warnings, ['sottovoce: "b" is not in the catalogue']);
});

test("a yes counts for the displayed terms and limit, and ends a pause", async (t) => {
  const { page, send, calls } = createPage(t);
  page.start(START);
  send({ paused: true });
  const first = page.question;
  assert.deepEqual(first, { offer: OFFER, limit: START.limit }, "the limit that the page names");
  assert.ok(first);
  send({ paused: true, terms: OFFER.terms, newOffer: OTHER, limit: 3 });
  const { question } = page;
  assert.deepEqual(question, { offer: OTHER, limit: 3 }, "the limit that was accepted");
  await page.accept(first);
  assert.deepEqual(calls, [
    ["accept", OFFER.terms, START.limit],
    ["pause", false],
  ]);
});

test("a yes that comes too late changes nothing", async (t) => {
  const { page, send, calls, warnings, client } = createPage(t);
  page.start(START);
  send({ paused: true });
  t.mock.method(client, "accept", async () => {
    throw new SettingsError("the server has changed its terms");
  });
  assert.ok(page.question);
  await page.accept(page.question);
  assert.deepEqual([calls, warnings], [[], ["sottovoce: the server has changed its terms"]]);
});

test("forgetting takes the yes back, and the question does not come by itself", async (t) => {
  const { page, send, calls } = createPage(t);
  page.start(START);
  send({ terms: OFFER.terms });
  await page.forget();
  assert.deepEqual(calls, [["withdraw"], ["forget"]]);
  send({ manifest: null, offer: null, epoch: 1 });
  assert.equal(page.findState(null), "notParticipating");
  send({ limit: 0 });
  assert.equal(page.findState(null), "notParticipating");
  assert.equal(page.findState("asking"), "asking");
  assert.equal(page.question?.limit, START.limit);
});

test("after forgetting, terms that waited for an answer do not ask by themselves either", async (t) => {
  const { page, send } = createPage(t);
  page.start(START);
  send({ terms: OFFER.terms, newOffer: OTHER });
  await page.forget();
  send({ offer: OTHER });
  assert.equal(page.findState(null), "notParticipating");
});

test("no history makes the page ask anything of the side that speaks to the proxy", async (t) => {
  const asked = [["a"], ["a", "b", "c", "unknown"], []].map(async (history) => {
    const { page, send, calls } = createPage(t, ["a", "b", "c", "d"]);
    page.start(START);
    for (const id of history) await page.markSeen(id);
    await send();
    await page.recommend(3);
    page.hide(history);
    await page.recommend(3);
    await page.score(["a", "b"]);
    for (const id of history) await page.listSimilar(id, 3);
    return calls;
  });
  assert.deepEqual(await Promise.all(asked), [[], [], []]);
});

test("a client that cannot be opened is reported, and the list is empty", async (t) => {
  const { warnings } = createPage(t);
  const page = new Page(async () => {
    throw new StoreError("no storage");
  });
  page.start(START);
  await assert.rejects(page.markSeen("a"));
  assert.ok(page.error instanceof StoreError);
  assert.deepEqual(warnings, ["sottovoce: StoreError: no storage"]);
});

test("each service has its own database, the question counts the others, and forget forgets all", async (t) => {
  const stored = new Map<string, string>();
  const trial = createPage(t, [], stored);
  trial.page.start({ ...START, key: "a".repeat(64) });
  trial.send({ proxy: "http://127.0.0.1:8080", spentEpsilon: 40 });
  assert.equal(trial.page.otherEpsilon, 0);
  const { page, send, opened, calls } = createPage(t, [], stored);
  page.start({ ...START, key: "b".repeat(64) });
  send({ proxy: START.proxy, spentEpsilon: 2 });
  assert.equal(page.otherEpsilon, 40);
  await page.forget();
  assert.deepEqual(
    opened.map((options) => {
      const { name, proxy, offline = false } = options as ClientOptions;
      return [name, proxy, offline];
    }),
    [
      [`sottovoce-${"b".repeat(16)}`, START.proxy, false],
      [`sottovoce-${"a".repeat(16)}`, "http://127.0.0.1:8080", true],
    ],
  );
  assert.deepEqual(calls, [["withdraw"], ["forget"], ["withdraw"], ["forget"]]);
});
