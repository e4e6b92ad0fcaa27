/**
 * The terms: everything that a device's owner agrees to, as one block of every manifest.
 *
 * A device stores the terms that its owner accepted. A server may later ask for less, never for
 * more. Each field has one rule. If one field is worse, the device refuses the manifest, even if
 * other fields are better.
 */

import { MAX_FACTORS, MAX_ITEMS } from "./bounds.js";
import { toHex } from "./bytes.js";
import { MAX_EPSILON } from "./coin.js";
import type { Terms } from "./epoch.js";
import * as strict from "./json.js";
import { SIGN_LOUD_FRACTION } from "./mechanism/base.js";
import { findMechanism, MECHANISMS } from "./mechanism/registry.js";

const MIN_EPSILON = 1e-6;
const MAX_REPORTS = 10_000;
const MAX_DUMMIES = 10_000_000;
/**
 * Largest crowd that terms may require. A crowd that never comes together would waste every epoch.
 */
const MAX_CLIENTS = 10_000_000;
/** Factor by which the required crowd may grow before the owner is asked again. */
const MAX_CROWD_GROWTH = 10;
/**
 * With dummies, a manifest must have at least this share of the loud directions that its terms
 * state.
 *
 * It cannot always have all of them, because their number depends on the number of items and is
 * rounded down.
 */
export const MIN_LOUD_RATIO = 0.9;
const TRAINING_ID_BYTES = 16;

/** The name of each field in the manifest. */
const FIELD_NAMES: Readonly<Record<keyof Terms, string>> = {
  training: "training",
  mechanism: "mechanism",
  parameters: "parameters",
  epsilon: "epsilon",
  loudFraction: "loud_fraction",
  reports: "reports",
  epochs: "epochs",
  share: "share",
  minClients: "min_clients",
  hold: "hold",
  dummies: "dummies",
  factors: "factors",
  maxItems: "max_items",
  accounts: "accounts",
  trial: "trial",
};
const TERMS_FIELDS = Object.keys(FIELD_NAMES) as (keyof Terms)[];

/** Parse the terms block of a manifest. Throws a `ProtocolError` if it is not valid. */
export function parseTermsBlock(fields: unknown): Terms {
  strict.checkKeys(fields, Object.values(FIELD_NAMES), "manifest: terms");
  const whole = (name: string, min: number, max = Number.MAX_SAFE_INTEGER) =>
    strict.parseWhole(fields[name], min, max, `terms: ${name}`);
  const real = (name: string, min: number, max: number) =>
    strict.parseReal(fields[name], min, max, `terms: ${name}`);
  const mechanism = findMechanism(fields.mechanism).name;
  return {
    training: toHex(strict.parseHex(fields.training, "terms: training", TRAINING_ID_BYTES)),
    mechanism,
    parameters: parseParameters(fields.parameters, mechanism),
    epsilon: real("epsilon", MIN_EPSILON, MAX_EPSILON),
    loudFraction: real("loud_fraction", 0, SIGN_LOUD_FRACTION),
    reports: whole("reports", 1, MAX_REPORTS),
    epochs: whole("epochs", 1),
    share: real("share", 2 ** -32, 1),
    minClients: whole("min_clients", 1, MAX_CLIENTS),
    hold: whole("hold", 0),
    dummies: whole("dummies", 0, MAX_DUMMIES),
    factors: whole("factors", 1, MAX_FACTORS),
    maxItems: whole("max_items", 1, MAX_ITEMS),
    accounts: strict.parseBoolean(fields.accounts, "terms: accounts"),
    trial: strict.parseBoolean(fields.trial, "terms: trial"),
  };
}

/**
 * Parse the parameters of a mechanism. Their ranges depend on the manifest, and are checked later.
 */
function parseParameters(fields: unknown, mechanism: string): Readonly<Record<string, number>> {
  const names = Object.keys(findMechanism(mechanism).parameters);
  strict.checkKeys(fields, names, "terms: parameters");
  return Object.fromEntries(
    names.map((name) => [
      name,
      strict.parseWhole(fields[name], 0, Number.MAX_SAFE_INTEGER, `terms: ${name}`),
    ]),
  );
}

/** Return the terms with the field names of the manifest. */
export function toFields(terms: Terms): strict.Fields {
  return Object.fromEntries(TERMS_FIELDS.map((field) => [FIELD_NAMES[field], terms[field]]));
}

/**
 * Decides whether one field of new terms is worse than the accepted one, and says so in a sentence.
 */
interface Rule {
  isWorse(accepted: Terms, asked: Terms): boolean;
  /** The sentence for the owner: `{0}` stands for the accepted value, `{1}` for the new one. */
  sentence: string;
}

type Compared = Exclude<keyof Terms, "parameters">;

const isDifferent = (field: Compared): Rule["isWorse"] => {
  return (accepted, asked) => asked[field] !== accepted[field];
};
const isLarger = (field: Compared): Rule["isWorse"] => {
  return (accepted, asked) => asked[field] > accepted[field];
};

/**
 * Check whether a crowd is worse. A smaller one hides less, and a far larger one may never come
 * together.
 */
function isWorseCrowd(accepted: Terms, asked: Terms): boolean {
  const [oldCrowd, newCrowd] = [accepted.minClients, asked.minClients];
  return newCrowd < oldCrowd || newCrowd > MAX_CROWD_GROWTH * oldCrowd;
}

/** Check whether the mechanism is the same but has other parameters. Free parameters may change. */
function hasOtherParameters(accepted: Terms, asked: Terms): boolean {
  const rules = MECHANISMS.find(({ name }) => name === accepted.mechanism)?.parameters ?? {};
  const names = new Set([...Object.keys(accepted.parameters), ...Object.keys(asked.parameters)]);
  return (
    accepted.mechanism === asked.mechanism &&
    [...names].some(
      (name) =>
        rules[name]?.isFree !== true && accepted.parameters[name] !== asked.parameters[name],
    )
  );
}

/** The rule of each field; the compiler refuses a missing one. */
export const TERMS_RULES: Readonly<Record<keyof Terms, Rule>> = {
  training: {
    isWorse: isDifferent("training"),
    sentence: "reports would go to another training",
  },
  mechanism: {
    isWorse: isDifferent("mechanism"),
    sentence: "reports would be made by {1}, not by {0}",
  },
  parameters: {
    isWorse: hasOtherParameters,
    sentence: "the mechanism's parameters would be {1}, not {0}",
  },
  epsilon: {
    // A smaller epsilon, or fewer reports, would not be better: the owner's limit would then allow
    // more reports than the consent stated. Among dummies, more reports may reveal more.
    isWorse: isDifferent("epsilon"),
    sentence: "the budget of one report would change from epsilon {0} to {1}",
  },
  loudFraction: {
    // A smaller share would not be better: among dummies, a report that names one of fewer loud
    // directions stands out more.
    isWorse: isDifferent("loudFraction"),
    sentence: "the share of loud directions would be {1}, not {0}",
  },
  reports: {
    isWorse: isDifferent("reports"),
    sentence: "an epoch would take {1} reports, not {0}",
  },
  epochs: {
    isWorse: isLarger("epochs"),
    sentence: "a lifetime would have {1} epochs, not {0}",
  },
  share: {
    isWorse: isLarger("share"),
    sentence: "the part of the epochs with this device would rise from {0} to {1}",
  },
  minClients: {
    isWorse: isWorseCrowd,
    sentence:
      "a report would be hidden among at least {1} people, not {0} (fewer hide less, and more " +
      "than ten times as many may never come together)",
  },
  hold: {
    isWorse: isLarger("hold"),
    sentence: "an epoch would wait for its crowd for {1} seconds, not {0}",
  },
  dummies: {
    isWorse: (accepted, asked) => asked.dummies < accepted.dummies,
    sentence: "the proxy would mix in {1} random reports, not {0}",
  },
  factors: {
    isWorse: isLarger("factors"),
    sentence: "the model would have {1} factors, not {0}",
  },
  maxItems: {
    isWorse: isLarger("maxItems"),
    sentence: "the model could have {1} items, not {0}",
  },
  accounts: {
    isWorse: isDifferent("accounts"),
    sentence: "reports would need an account, or would no longer need one",
  },
  trial: {
    isWorse: isDifferent("trial"),
    sentence: "this would be a trial, or would no longer be one",
  },
};

/** Return one plain sentence for each field that would be worse for the owner. */
export function listWorse(accepted: Terms, asked: Terms): string[] {
  return TERMS_FIELDS.filter((field) => TERMS_RULES[field].isWorse(accepted, asked)).map((field) =>
    TERMS_RULES[field].sentence
      .replace("{0}", formatField(accepted[field]))
      .replace("{1}", formatField(asked[field])),
  );
}

/** Format a value for a sentence; parameters are sorted by name. */
function formatField(value: Terms[keyof Terms]): string {
  if (typeof value !== "object") return String(value);
  const entries = Object.entries(value).map(([name, number]) => `${name} ${number}`);
  return entries.sort().join(", ");
}
