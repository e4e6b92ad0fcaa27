/**
 * Runs the unit tests of a workspace, from its folder: `node ../test.mjs`, or one file of them:
 * `node ../test.mjs timing.test.ts`.
 *
 * All files in one process: what they share is read and compiled once.
 */
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build, stop } from "esbuild";
import { voprf } from "./voprf.mjs";

const folder = process.cwd();
const out = join(folder, "build", "test");
const [, , only = ".test.ts"] = process.argv;
const files = (await readdir(join(folder, "test"))).filter((name) => name.endsWith(only));
if (files.length === 0) throw new Error(`no test/*${only}`);
await rm(out, { recursive: true, force: true });
await build({
  entryPoints: files.map((name) => join(folder, "test", name)),
  outdir: out,
  bundle: true,
  splitting: true,
  platform: "node",
  format: "esm",
  target: "node20",
  conditions: ["sottovoce-source"],
  plugins: [voprf],
  logLevel: "warning",
});
await stop(); // its process would be waited for at the end
for (const name of files.sort()) {
  await import(pathToFileURL(join(out, name.replace(/\.ts$/, ".js"))).href);
}
