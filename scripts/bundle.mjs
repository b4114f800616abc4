// Fills extension/bundled/ with what the language server runs from: ridgeline itself and its pure-Python libraries, with
// their metadata. PYTHON names the interpreter whose pip is used; else the repository's environment, else python3.
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, rmSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const server = join(root, "extension", "server");
const bundled = join(root, "extension", "bundled");
const libs = join(bundled, "libs");
const environment = join(root, ".venv", "bin", "python");
const python = process.env.PYTHON ?? (existsSync(environment) ? environment : "python3");

function pip(...args) {
  const common = [
    "-m",
    "pip",
    "install",
    "--quiet",
    "--disable-pip-version-check",
    "--target",
    libs,
    "--no-deps",
    "--no-compile",
  ];
  const done = spawnSync(python, [...common, ...args], { stdio: "inherit" });
  if (done.status !== 0) throw new Error(`pip of ${python} failed (${done.error?.message ?? done.status})`);
}

rmSync(bundled, { recursive: true, force: true });
mkdirSync(libs, { recursive: true });
// One bundle for every platform and every supported Python: the oldest one decides, and only pure wheels are taken.
const universal = ["--implementation", "py", "--platform", "any", "--abi", "none", "--python-version", "3.10"];
pip(...universal, "--only-binary=:all:", "--require-hashes", "-r", join(server, "requirements.txt"));
pip(root);
rmSync(join(libs, "bin"), { recursive: true, force: true });
rmSync(join(libs, "ridgeline-0.1.0.dist-info", "direct_url.json"), { force: true });
for (const file of ["boot.py", "requirements-analysis.txt"]) cpSync(join(server, file), join(bundled, file));
// The pages of the findings, where the server looks for them: `docs/findings/…` above the package.
cpSync(join(root, "docs", "findings"), join(bundled, "docs", "findings"), { recursive: true });
