/**
 * The whole client in one file, for pages that are built by nobody:
 *
 *     node bundle.mjs [FILE]    writes dist/sottovoce-client.js, or FILE
 *
 *     <script type="module">import { Client } from "./sottovoce-client.js"; ...</script>
 */
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { notices } from "../notices.mjs";

const NAME = "sottovoce-client.js";

await build({
  absWorkingDir: fileURLToPath(new URL(".", import.meta.url)),
  entryPoints: ["src/index.ts"],
  outfile: process.argv[2] ?? `dist/${NAME}`,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  banner: { js: `/*!\nApache-2.0. ${(await notices(NAME)).join("\n")}*/` },
  logLevel: "warning",
});
