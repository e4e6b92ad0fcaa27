/**
 * How the VOPRF's library is bundled: of its two forms the one of modules, which its package.json offers to
 * nobody, and without its other provider of cryptography, which is three quarters of it.
 */
import { fileURLToPath } from "node:url";

const FILES = {
  "@cloudflare/voprf-ts": "index.js",
  "@cloudflare/voprf-ts/crypto-noble": "cryptoNoble.js",
};
const root = new URL("node_modules/@cloudflare/voprf-ts/lib/esm/src/", import.meta.url);

export const voprf = {
  name: "voprf",
  setup(build) {
    build.onResolve({ filter: /^@cloudflare\/voprf-ts/ }, ({ path }) => ({
      path: fileURLToPath(new URL(FILES[path], root)),
      sideEffects: false,
    }));
    build.onLoad({ filter: /voprf-ts.*cryptoSjcl\.js$/ }, () => ({
      contents: "export const CryptoSjcl = undefined;",
    }));
  },
};
