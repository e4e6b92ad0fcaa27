/** `node agree.mjs FILE`: writes the program of `test/agree.ts`. */
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { voprf } from "../voprf.mjs";

const [, , outfile] = process.argv;
await build({
  entryPoints: [fileURLToPath(new URL("test/agree.ts", import.meta.url))],
  outfile,
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  plugins: [voprf],
  logLevel: "warning",
});
