/** Which mechanisms there are. A further one is a file beside this and a name in this list. */

import { ProtocolError } from "../errors.js";
import { shown } from "../strict.js";
import type { Mechanism } from "./base.js";
import { coordinate } from "./coordinate.js";
import { loudest } from "./loudest.js";

/** The ways to report that this client knows. */
export const MECHANISMS: readonly Mechanism[] = [coordinate, loudest];

/** The mechanism that a manifest names, or a `ProtocolError`. */
export function mechanismNamed(name: unknown): Mechanism {
  const found = MECHANISMS.find((mechanism) => mechanism.name === name);
  if (found === undefined) throw new ProtocolError(`terms: no mechanism ${shown(name)}`);
  return found;
}
