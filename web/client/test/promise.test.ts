/** What is promised: the same figures and sentences as in every other client. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { centralBound, localBound } from "../src/bound.js";
import { promiseOf, promiseSentences } from "../src/promise.js";
import { promises } from "./vectors.js";
import { TERMS } from "./world.js";

test("both figures are the other implementation's", () => {
  assert.ok(promises.length > 20);
  for (const { clients, delta, local, central, loud_fraction, ...event } of promises) {
    const reporting = { ...event, loudFraction: loud_fraction };
    assert.equal(localBound(reporting), local);
    const found = centralBound(reporting, clients, delta);
    assert.ok(Math.abs(found - central) <= 1e-9 * central, `${found}, not ${central}`);
  }
});

test("a larger crowd never promises less, and no crowd more than everybody's reports in the open", () => {
  const event = { epsilon: 2.5, reports: 4, epochs: 10, loudFraction: 0.1 };
  const bounds = [1, 2, 10, 100, 1000, 10_000, 100_000].map((n) => centralBound(event, n, 1e-6));
  assert.equal(bounds[0], localBound(event));
  bounds.slice(1).forEach((bound, at) => {
    assert.ok(bound <= (bounds[at] as number) * (1 + 1e-9), `${bounds}`);
  });
});

test("the extremes of the terms have a promise", () => {
  for (const epsilon of [1e-6, 2.5, 40]) {
    for (const loudFraction of [2 ** -25, 0.5]) {
      for (const epochs of [1, Number.MAX_SAFE_INTEGER]) {
        const terms = { ...TERMS, epsilon, loudFraction, epochs, reports: 10_000 };
        const { local, central } = promiseOf(terms);
        assert.ok(Number.isFinite(local) && central >= 0 && central <= local, `${central}`);
      }
    }
  }
});

test("the crowd is the one that the terms enforce", () => {
  const { local, central, clients, delta } = promiseOf({ ...TERMS, epochs: 10 });
  assert.deepEqual([local, clients, delta], [100, TERMS.leastClients, 1e-6]);
  assert.ok(central < local);
});

test("sentences round up, and say on what they rest", () => {
  const said = (local: number, central: number) =>
    promiseSentences({ local, central, clients: 50_000, delta: 1e-6 });
  assert.deepEqual(said(10, 0.4273), [
    "Whatever happens, even if every report can be traced to this device: all that it ever reports " +
      "is at most e^10 times likelier than with any other history.",
    "If the proxy mixes honestly and does not work together with the server, and at least 50,000 " +
      "honest devices report in every epoch: all that the server sees is at most e^0.428 (1.54) times " +
      "likelier than with any other history, but for a chance of one in 1,000,000.",
    "The promise is for one device, not for one person: what several devices of a person say adds up.",
  ]);
  assert.match(said(5000, 237.1).join(" "), /e\^5000 times .* e\^238 times .* Both are weak/u);
  assert.match(said(10, 10).join(" "), /The crowd that is asked for adds nothing to this/u);
});
