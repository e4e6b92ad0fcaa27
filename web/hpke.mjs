/**
 * Makes the bundles of `@hpke/*` smaller, and fit for the bundlers of pages.
 *
 * Their modules have no side effects, so those that nobody uses can be left out. Their package.json
 * says so, but a second one beside the modules hides it.
 *
 * Their fields are defined by `Object.defineProperty` with the flags of a plain assignment. An
 * assignment is shorter, and does the same as long as no class has a setter of that name.
 *
 * A device only seals, each time with a new pair of keys that WebCrypto makes. So the methods that
 * open and those that take a private key from elsewhere are left out.
 *
 * Every browser has `globalThis.crypto`. What looks for it elsewhere is left out: it has an
 * `import()`, with which Vite builds no worker in its default format.
 */
import { readFile } from "node:fs/promises";

const SEEN = Symbol("seen");
const DEFINITION_PATTERN =
  /Object\.defineProperty\(this, "(\w+)", \{\s+enumerable: true,\s+configurable: true,\s+writable: true,\s+value: ([\s\S]+?)\n {8}\}\);/g;
const UNUSED_METHODS = [
  ...["createRecipientContext", "open", "_keyScheduleR", "decap", "export"],
  ...["deriveKeyPair", "derivePublicKey", "serializePrivateKey", "deserializePrivateKey"],
  ...["importKey", "_importJWK", "_deserializePkcs8Key", "expand", "labeledExpand"],
];
const UNUSED_PATTERN = new RegExp(
  `\\n {4}async (?:${UNUSED_METHODS.join("|")})\\(.*\\) \\{[\\s\\S]*?\\n {4}\\}`,
  "g",
);
/** The end of a function that looks for WebCrypto. */
const OLD_NODE_PATTERN = /\n {4}\/\/ Node\.js <= v18\n[\s\S]*?\n\}\n/g;
/** A copy of `globalThis` that finds what a runtime lacks; a browser lacks nothing. */
const SHIM_PATTERN = /_dnt\.shims\.js$/;

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
      if (SHIM_PATTERN.test(path)) return { contents: "export const dntGlobalThis = globalThis;" };
      const contents = await readFile(path, "utf8");
      return {
        contents: contents
          .replace(DEFINITION_PATTERN, "this.$1 = $2;")
          .replace(UNUSED_PATTERN, "")
          .replace(OLD_NODE_PATTERN, "\n}\n"),
      };
    });
  },
};
