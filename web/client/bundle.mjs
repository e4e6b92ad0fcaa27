/**
 * The whole client in two files, for pages that are built by nobody, and what only services with accounts
 * need in a third:
 *
 *     node bundle.mjs [FOLDER]    writes them into dist, or FOLDER
 *
 *     <script type="module">import { Client } from "./sottovoce-client.js"; ...</script>
 *
 * `sottovoce-client.js` is what a page imports. It starts `sottovoce-worker.js`, which lies beside it.
 * `sottovoce-accounts.js` is also what `sottovoce-client/accounts` means.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { hpke } from "../hpke.mjs";
import { notices, VOPRF } from "../notices.mjs";
import { voprf } from "../voprf.mjs";

const WORKER = "sottovoce-worker.js";
export const ACCOUNTS = "sottovoce-accounts.js";

/** By the file's name. */
export async function bundled() {
  const [client, worker, accounts] = await Promise.all([
    inOneFile("src/index.ts", "/*! Apache-2.0. */"),
    inOneFile("src/sottovoce-worker.ts", banner(await notices(WORKER)), PRIVATE_OF_HPKE),
    inOneFile("src/accounts.ts", banner(await notices(ACCOUNTS, VOPRF))),
  ]);
  return { "sottovoce-client.js": client, [WORKER]: worker, [ACCOUNTS]: accounts };
}

const banner = (said) => `/*!\nApache-2.0. ${said.join("\n")}*/`;

/** Private properties of `@hpke/*`, which may have short names. None of ours begins like this. */
const PRIVATE_OF_HPKE = /^_[a-z]/;

async function inOneFile(source, js, mangleProps) {
  const { outputFiles } = await build({
    absWorkingDir: fileURLToPath(new URL(".", import.meta.url)),
    entryPoints: [source],
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    charset: "utf8",
    legalComments: "none",
    plugins: [hpke, voprf],
    ...(mangleProps && { mangleProps }),
    // Without declarations of fields that constructors assign anyway.
    tsconfigRaw: { compilerOptions: { useDefineForClassFields: false } },
    pure: ["Object.keys"], // lists that nobody here reads
    banner: { js },
    write: false,
    logLevel: "warning",
  });
  return outputFiles[0].text;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = process.argv[2] ?? "dist";
  await mkdir(folder, { recursive: true });
  for (const [name, text] of Object.entries(await bundled())) {
    await writeFile(join(folder, name), text);
  }
}
