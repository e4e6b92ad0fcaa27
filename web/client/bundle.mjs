/**
 * The whole client in two files, for pages that are built by nobody:
 *
 *     node bundle.mjs [FOLDER]    writes both into dist, or FOLDER
 *
 *     <script type="module">import { Client } from "./sottovoce-client.js"; ...</script>
 *
 * `sottovoce-client.js` is what a page imports. It starts `sottovoce-worker.js`, which lies beside it.
 */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { notices } from "../notices.mjs";

const WORKER = "sottovoce-worker.js";
const folder = process.argv[2] ?? "dist";
const banner = `/*!\nApache-2.0. ${(await notices(WORKER)).join("\n")}*/`;

for (const [source, file, js] of [
  ["src/index.ts", "sottovoce-client.js", "/*! Apache-2.0. */"],
  ["src/sottovoce-worker.ts", WORKER, banner],
]) {
  await build({
    absWorkingDir: fileURLToPath(new URL(".", import.meta.url)),
    entryPoints: [source],
    outfile: join(folder, file),
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    charset: "utf8",
    legalComments: "none",
    banner: { js },
    allowOverwrite: true,
    logLevel: "warning",
  });
}
