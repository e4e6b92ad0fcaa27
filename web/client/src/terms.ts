/**
 * The terms: all that a device's owner agrees to, as one block of every manifest.
 *
 * A device pins the terms that its owner accepted. A server may later ask for less, never for more:
 * each field has one rule, and a single field that is worse refuses the manifest, whatever got better.
 */

import { toHex } from "./bytes.js";
import { MAX_EPSILON } from "./coin.js";
import type { Terms } from "./epoch.js";
import { ProtocolError } from "./errors.js";
import * as strict from "./json.js";
import { SIGN } from "./mechanism/base.js";
import { MECHANISMS, mechanismNamed } from "./mechanism/registry.js";
import { MOST_FACTORS, MOST_ITEMS } from "./model.js";

const LEAST_EPSILON = 1e-6;
const MOST_REPORTS = 10_000;
const MOST_DUMMIES = 10_000_000;
/** No crowd is larger: one that is never reached would make every epoch a wasted one. */
const MOST_CLIENTS = 10_000_000;
/** The crowd that is waited for may become so many times as large without asking, and no larger. */
const MOST_GROWTH = 10;
/**
 * Where dummies hide people, a manifest makes at least this part of the stated directions loud. It cannot
 * always have all: with another number of items the loud directions are rounded down.
 */
export const MIN_LOUD_RATIO = 0.9;
/** Bytes of a training's id. */
const TRAINING = 16;

/** By what name each field stands in the manifest. */
const NAMES: Readonly<Record<keyof Terms, string>> = {
  training: "training",
  mechanism: "mechanism",
  parameters: "parameters",
  epsilon: "epsilon",
  loudFraction: "loud_fraction",
  reports: "reports",
  epochs: "epochs",
  share: "share",
  leastClients: "least_clients",
  hold: "hold",
  dummies: "dummies",
  factors: "factors",
  mostItems: "most_items",
  accounts: "accounts",
  trial: "trial",
};
const FIELDS = Object.keys(NAMES) as (keyof Terms)[];

/** The block of a manifest, or a `ProtocolError`. */
export function readTerms(given: unknown): Terms {
  if (!strict.isObject(given)) throw new ProtocolError("manifest: terms must be an object");
  strict.exactKeys(given, Object.values(NAMES), "manifest: terms");
  const whole = (name: string, least: number, most = Number.MAX_SAFE_INTEGER) =>
    strict.whole(given[name], least, most, `terms: ${name}`);
  const real = (name: string, least: number, most: number) =>
    strict.real(given[name], least, most, `terms: ${name}`);
  const mechanism = mechanismNamed(given.mechanism).name;
  return {
    training: toHex(strict.hexadecimal(given.training, "terms: training", TRAINING)),
    mechanism,
    parameters: readParameters(given.parameters, mechanism),
    epsilon: real("epsilon", LEAST_EPSILON, MAX_EPSILON),
    loudFraction: real("loud_fraction", 0, SIGN),
    reports: whole("reports", 1, MOST_REPORTS),
    epochs: whole("epochs", 1),
    share: real("share", 2 ** -32, 1),
    leastClients: whole("least_clients", 1, MOST_CLIENTS),
    hold: whole("hold", 0),
    dummies: whole("dummies", 0, MOST_DUMMIES),
    factors: whole("factors", 1, MOST_FACTORS),
    mostItems: whole("most_items", 1, MOST_ITEMS),
    accounts: strict.boolean(given.accounts, "terms: accounts"),
    trial: strict.boolean(given.trial, "terms: trial"),
  };
}

/** Which parameters there are, the mechanism says; their ranges depend on the manifest. */
function readParameters(given: unknown, mechanism: string): Readonly<Record<string, number>> {
  if (!strict.isObject(given)) throw new ProtocolError("terms: parameters must be an object");
  const names = Object.keys(mechanismNamed(mechanism).parameters);
  strict.exactKeys(given, names, "terms: parameters");
  return Object.fromEntries(
    names.map((name) => [
      name,
      strict.whole(given[name], 0, Number.MAX_SAFE_INTEGER, `terms: ${name}`),
    ]),
  );
}

/** As the manifest has it. */
export function writtenTerms(terms: Terms): strict.Fields {
  return Object.fromEntries(FIELDS.map((field) => [NAMES[field], terms[field]]));
}

/** When one field of the asked terms is worse than the accepted one, and how to say so. */
interface Rule {
  isWorse(accepted: Terms, asked: Terms): boolean;
  /** `{0}` is what was accepted, `{1}` what is asked for. */
  sentence: string;
}

type Compared = Exclude<keyof Terms, "parameters">;

const other = (field: Compared): Rule["isWorse"] => {
  return (accepted, asked) => asked[field] !== accepted[field];
};
const atMost = (field: Compared): Rule["isWorse"] => {
  return (accepted, asked) => asked[field] > accepted[field];
};

/** A smaller crowd hides less; a far larger one would never come together, and be paid for in vain. */
function anotherCrowd(accepted: Terms, asked: Terms): boolean {
  const [before, now] = [accepted.leastClients, asked.leastClients];
  return now < before || now > MOST_GROWTH * before;
}

/** Of another mechanism they say nothing; of the same all but its free ones count. */
function otherParameters(accepted: Terms, asked: Terms): boolean {
  const known = MECHANISMS.find(({ name }) => name === accepted.mechanism)?.parameters ?? {};
  const names = new Set([...Object.keys(accepted.parameters), ...Object.keys(asked.parameters)]);
  return (
    accepted.mechanism === asked.mechanism &&
    [...names].some(
      (name) =>
        known[name]?.isFree !== true && accepted.parameters[name] !== asked.parameters[name],
    )
  );
}

/** One for each field: TypeScript itself refuses a field without one. */
export const RULES: Readonly<Record<keyof Terms, Rule>> = {
  training: {
    isWorse: other("training"),
    sentence: "reports would go to another training",
  },
  mechanism: {
    isWorse: other("mechanism"),
    sentence: "reports would be made by {1}, not by {0}",
  },
  parameters: {
    isWorse: otherParameters,
    sentence: "the mechanism's parameters would be {1}, not {0}",
  },
  epsilon: {
    // Less of it, or fewer reports, are no better: the owner's limit would then allow more reports than it
    // said, which may tell more among dummies.
    isWorse: other("epsilon"),
    sentence: "the budget of one report would change from epsilon {0} to {1}",
  },
  loudFraction: {
    // Fewer are no better: among dummies a report that names one of fewer stands out more.
    isWorse: other("loudFraction"),
    sentence: "the share of loud directions would be {1}, not {0}",
  },
  reports: {
    isWorse: other("reports"),
    sentence: "an epoch would take {1} reports, not {0}",
  },
  epochs: {
    isWorse: atMost("epochs"),
    sentence: "a lifetime would have {1} epochs, not {0}",
  },
  share: {
    isWorse: atMost("share"),
    sentence: "the part of the epochs with this device would rise from {0} to {1}",
  },
  leastClients: {
    isWorse: anotherCrowd,
    sentence:
      "a report would be hidden among at least {1} people, not {0} (fewer hide less, and more " +
      "than ten times as many may never come together)",
  },
  hold: {
    isWorse: atMost("hold"),
    sentence: "an epoch would wait for its crowd for {1} seconds, not {0}",
  },
  dummies: {
    isWorse: (accepted, asked) => asked.dummies < accepted.dummies,
    sentence: "the proxy would mix in {1} random reports, not {0}",
  },
  factors: {
    isWorse: atMost("factors"),
    sentence: "the model would have {1} factors, not {0}",
  },
  mostItems: {
    isWorse: atMost("mostItems"),
    sentence: "the model could have {1} items, not {0}",
  },
  accounts: {
    isWorse: other("accounts"),
    sentence: "reports would need an account, or would no longer need one",
  },
  trial: {
    isWorse: other("trial"),
    sentence: "this would be a trial, or would no longer be one",
  },
};

/** In plain words, everything that would be worse for the owner. */
export function brokenBy(accepted: Terms, asked: Terms): string[] {
  return FIELDS.filter((field) => RULES[field].isWorse(accepted, asked)).map((field) =>
    RULES[field].sentence
      .replace("{0}", shown(accepted[field]))
      .replace("{1}", shown(asked[field])),
  );
}

/** Parameters by name, whatever their order. */
function shown(value: Terms[keyof Terms]): string {
  if (typeof value !== "object") return String(value);
  const named = Object.entries(value).map(([name, number]) => `${name} ${number}`);
  return named.sort().join(", ");
}
