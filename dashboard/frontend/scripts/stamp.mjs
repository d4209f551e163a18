// Copies what is served as it is beside the bundle, and records the module that a page loads first, and which sources
// the build came from.
// dashboard/assets.py computes the same hash in Python: change both together.
import { createHash } from "node:crypto";
import { copyFileSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const out = join(root, "..", "static", "dashboard");

function files(directory) {
  return readdirSync(directory).flatMap((name) => {
    const path = join(directory, name);
    return statSync(path).isDirectory() ? files(path) : [path];
  });
}

const sources = [
  ...files(join(root, "src")),
  ...["package-lock.json", "package.json", "svelte.config.js", "vite.config.ts", "vite.worker.config.ts", "scripts/stamp.mjs"].map((name) => join(root, name)),
]
  .map((path) => relative(root, path).split(sep).join("/"))
  .sort((a, b) => (a < b ? -1 : 1));

const hash = createHash("sha256");
for (const name of sources) {
  hash.update(name + "\0" + createHash("sha256").update(readFileSync(join(root, name))).digest("hex") + "\n");
}
// What the browser tests check accessibility with: they need no Node either.
copyFileSync(join(root, "node_modules/axe-core/axe.min.js"), join(root, "..", "..", "tests", "browser", "axe.min.js"));
for (const name of ["icon.svg", "login.css", "admin.css"]) copyFileSync(join(root, "src", name), join(out, name));
const first = readdirSync(out).filter((name) => /^app-.*\.js$/.test(name));
if (first.length !== 1) throw new Error(`not one first module: ${first}`);
writeFileSync(join(out, "build.json"), JSON.stringify({ app: first[0], sources: hash.digest("hex") }, null, 2) + "\n");
