// Where things are: the repository, the editor's cache folder, the artifacts of a test run.
import { existsSync, mkdirSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

export const here = resolve(dirname(fileURLToPath(import.meta.url)), "..");
export const root = resolve(here, "../../..");
export const cache = resolve(process.env.RIDGELINE_EDITOR_CACHE ?? join(root, ".cache", "editor"));
export const vsix = process.env.RIDGELINE_VSIX ?? join(root, "extension", "ridgeline.vsix");
export const screenshots = join(root, "artifacts", "screenshots");
export const python = process.env.RIDGELINE_TEST_PYTHON ?? join(root, ".venv", "bin", "python");

mkdirSync(screenshots, { recursive: true });

/** A new folder outside the repository, so that nothing above it (a `.venv`, a git repository) plays a part. */
export function scratch(name) {
  return mkdtempSync(join(tmpdir(), `ridgeline-${name}-`));
}

export function browserPath() {
  const named = process.env.RIDGELINE_CHROMIUM;
  const found = named ?? ["chromium", "chromium-browser", "google-chrome"].map((n) => `/usr/bin/${n}`).find(existsSync);
  if (!found) throw new Error("no Chromium; install it, or name one in RIDGELINE_CHROMIUM");
  return found;
}
