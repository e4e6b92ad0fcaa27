/**
 * Says once more what `@hpke/*` say of themselves, that a module of theirs that nobody uses can be left out:
 * a second package.json, beside their modules, hides it.
 */
const SEEN = Symbol("seen");

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
  },
};
