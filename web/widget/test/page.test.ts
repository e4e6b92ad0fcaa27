/**
 * What the elements share: when a visitor is asked, what is listed, and that nothing that depends on a
 * history reaches the side of the client that speaks to the proxy.
 */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { type ClientOptions, type News, type Offer, StoreError } from "sottovoce-client";
import { Page, type PageClient } from "../src/page.js";

const OFFER = { terms: { training: "one" } } as unknown as Offer;
const OTHER = { terms: { training: "other" } } as unknown as Offer;
const NEWS = {
  ...{ offer: OFFER, newOffer: null, terms: null, paused: false, lastSync: null, error: null },
  ...{ manifest: {}, charges: [], limit: 1, worse: [] },
} as unknown as News;
const SHORT = { trial: false, reports: 1, guess: null };
const START = { proxy: "https://proxy.example", key: "ab", limit: 5 };

/** A page whose client does nothing, and what is asked of it. */
function pageOf(t: TestContext, known: readonly string[] = [], kept = new Map<string, string>()) {
  const calls: [string, ...unknown[]][] = [];
  const touched: string[] = [];
  const said: string[] = [];
  let tell: (news: News) => unknown = () => {};
  const note = async (name: string, ...given: unknown[]) => void calls.push([name, ...given]);
  const items = (ids: readonly string[]) => ids.map((id) => ({ id, title: id, tags: {} }));
  const client: PageClient = {
    record: async (ids) => touched.push(...ids),
    listTouched: async () =>
      items(touched).map((each) => ({ ...each, isKnown: known.includes(each.id) })),
    recommend: async (n) =>
      items(known.filter((id) => !touched.includes(id)).slice(0, n)).map((each) => ({
        ...{ ...each, score: 0, because: [] },
      })),
    accept: (terms) => note("accept", terms),
    pause: (on) => note("pause", on),
    forget: () => note("forget"),
    summarize: async () => SHORT,
  };
  t.mock.method(console, "warn", (text: string) => said.push(text));
  t.mock.method(console, "error", (text: string) => said.push(text));
  const storage = {
    getItem: (name: string) => kept.get(name) ?? null,
    setItem: (name: string, value: string) => void kept.set(name, value),
  };
  const opened: unknown[] = [];
  const open = async ({ news = () => {}, ...options }: ClientOptions) => {
    opened.push(options);
    tell = news;
    return client;
  };
  const page = new Page(open, () => storage);
  const hear = (news: Partial<News> = {}) => tell({ ...NEWS, ...news });
  return { page, calls, said, opened, hear, client };
}

test("one client for a page, once it is said where", async (t) => {
  const { page, opened } = pageOf(t);
  page.start({ texts: { yes: "Yes" } });
  assert.equal(opened.length, 0);
  page.start(START);
  page.start({ ...START, lang: "de" });
  assert.equal(opened.length, 1);
});

test("an account is handed on to the client", async (t) => {
  const { page, opened } = pageOf(t);
  const account = {} as NonNullable<ClientOptions["account"]>;
  page.start({ ...START, account });
  assert.equal((opened[0] as ClientOptions).account, account);
});

test("who is asked, and what is shown else", async (t) => {
  const kept = new Map<string, string>();
  const { page, hear } = pageOf(t, [], kept);
  page.start(START);
  assert.equal(page.findState(null), "nothing");
  const { terms } = OFFER;
  const shown = (news: Partial<News>, opened: Parameters<Page["findState"]>[0] = null) => {
    hear(news);
    return page.findState(opened);
  };
  assert.equal(shown({ offer: null }), "nothing");
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
  assert.equal(shown({ terms: some, epochs: 2, remainingEpsilon: 3.9 }), "over");
  assert.equal(shown({ terms: some, epochs: 3, remainingEpsilon: 9 }), "over");
  const noToken = { outcome: "no token" } as News["lastSync"];
  assert.equal(shown({ terms, lastSync: noToken }), "noToken");
  assert.equal(shown({ terms, lastSync: noToken, paused: true }), "paused");
  assert.equal(shown({ terms: some, lastSync: noToken, epochs: 3, remainingEpsilon: 9 }), "over");
  assert.equal(shown({ terms, newOffer: OTHER }), "asking");
  assert.equal(shown({ terms, newOffer: OTHER, paused: true }), "paused");
  page.refuse(OTHER);
  assert.equal(shown({ terms, newOffer: OTHER }), "waits");
  assert.equal(pageOf(t, [], kept).page.findState(null), "nothing");
});

test("a browser without storage asks again, and works", async (t) => {
  const { hear, page } = pageOf(t);
  Object.assign(page, { storage: () => assert.fail("blocked") });
  page.start(START);
  hear();
  page.refuse(OFFER);
  assert.equal(page.findState(null), "asking");
});

test("what is hidden is never listed, and others take its place", async (t) => {
  const { page, hear, client } = pageOf(t, ["a", "b", "c", "d", "e"]);
  page.start(START);
  assert.equal(await page.recommend(2), null); // there is no model yet
  hear();
  const listed = async (n: number) => (await page.recommend(n))?.map(({ id }) => id);
  page.hide(["a", "c", "x"]);
  await page.markSeen("b");
  assert.deepEqual(await listed(2), ["d", "e"]);
  page.hide([]);
  assert.deepEqual(await listed(2), ["a", "c"]);
  t.mock.method(client, "recommend", async () => {
    throw new StoreError("forgotten");
  });
  assert.equal(await page.recommend(2), null);
});

test("whoever builds the page is warned of ids that no catalogue has, once", async (t) => {
  const { page, hear, said } = pageOf(t, ["a"]);
  page.start(START);
  await page.markSeen("a", "b");
  assert.deepEqual(said, []);
  await hear();
  await hear();
  assert.deepEqual(said, ['sottovoce: "b" is not in the catalogue']);
});

test("taking part again ends a pause, and forgetting begins one", async (t) => {
  const { page, hear, calls } = pageOf(t);
  page.start(START);
  hear({ paused: true });
  await page.accept(OFFER);
  await page.forget();
  assert.deepEqual(calls, [["accept", OFFER.terms], ["pause", false], ["pause", true], ["forget"]]);
});

test("no history makes the page ask anything of the side that speaks to the proxy", async (t) => {
  const asked = [["a"], ["a", "b", "c", "unknown"], []].map(async (history) => {
    const { page, hear, calls } = pageOf(t, ["a", "b", "c", "d"]);
    page.start(START);
    for (const id of history) await page.markSeen(id);
    await hear();
    await page.recommend(3);
    page.hide(history);
    await page.recommend(3);
    return calls;
  });
  assert.deepEqual(await Promise.all(asked), [[], [], []]);
});

test("a client that cannot be opened is told of, and the list is empty", async (t) => {
  const { said } = pageOf(t);
  const page = new Page(async () => {
    throw new StoreError("no storage");
  });
  page.start(START);
  await assert.rejects(page.markSeen("a"));
  assert.deepEqual([page.hasFailed, said], [true, ["sottovoce: StoreError: no storage"]]);
});
