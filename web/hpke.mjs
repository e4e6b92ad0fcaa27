/**
 * Makes the bundles of `@hpke/*` smaller.
 *
 * Their modules have no side effects, so those that nobody uses can be left out. Their package.json
 * says so, but a second one beside the modules hides it.
 *
 * Their fields are defined by `Object.defineProperty` with the flags of a plain assignment. An
 * assignment is shorter, and does the same as long as no class has a setter of that name.
 *
 * A device only seals, so the methods that open are left out.
 */
import { readFile } from "node:fs/promises";

const SEEN = Symbol("seen");
const DEFINITION_PATTERN =
  /Object\.defineProperty\(this, "(\w+)", \{\s+enumerable: true,\s+configurable: true,\s+writable: true,\s+value: ([\s\S]+?)\n {8}\}\);/g;
const OPENING_PATTERN =
  /\n {4}async (?:createRecipientContext|open|_keyScheduleR|decap)\(.*\) \{[\s\S]*?\n {4}\}/g;

export const hpke = {
  name: "hpke",
  setup(build) {
    build.onResolve({ filter: /^(@hpke\/|\.)/ }, async ({ path, pluginData, ...from }) => {
      const isTheirs = path.startsWith("@hpke/") || /node_modules.@hpke/.test(from.importer);
      if (!isTheirs || pluginData === SEEN) return undefined;
      const { importer, namespace, resolveDir, kind } = from;
      const given = { importer, namespace, resolveDir, kind, pluginData: SEEN };
      return { ...(await build.resolve(path, given)), sideEffects: false };
    });
    build.onLoad({ filter: /node_modules.@hpke.*\.js$/ }, async ({ path }) => {
      const contents = await readFile(path, "utf8");
      const assigned = contents.replace(DEFINITION_PATTERN, "this.$1 = $2;");
      return { contents: assigned.replace(OPENING_PATTERN, "") };
    });
  },
};
