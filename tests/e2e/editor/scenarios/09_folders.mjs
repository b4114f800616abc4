// A window with several folders, each with its own settings, interpreter, and results.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { python } from "../lib/paths.mjs";
import { session, until } from "../lib/scenario.mjs";

const ECHO = `
import json, os, sys, torch
said = {"argv": sys.argv[1:], "cwd": os.getcwd(), "python": sys.executable}
torch.set_num_threads(1)
with open("echo.tmp", "w") as file:
    json.dump(said, file)
os.replace("echo.tmp", "echo.json")
a = torch.randn(64, 64)
for _ in range(60):
    a = (a @ a).tanh()
`;

/** The first folder has a stored run; the second an interpreter and settings of its own. */
function twoFolders(place) {
  place.storeRun();
  const other = join(place.folder, "other");
  mkdirSync(join(other, ".vscode"), { recursive: true });
  const settings = {
    "ridgeline.python": "${workspaceFolder}/env/bin/python",
    "ridgeline.analysis.python": python,
    "ridgeline.run.args": ["--data", "${workspaceFolder}/d"],
    "ridgeline.storage.path": "${workspaceFolder}/../runs-of-other",
  };
  writeFileSync(join(other, ".vscode", "settings.json"), JSON.stringify(settings));
  writeFileSync(join(other, "echo.py"), ECHO);
  symlinkSync(join(python, "..", ".."), join(other, "env"));
  const folders = [{ path: "ws" }, { path: "other" }];
  // Quick Open would look through the environment behind the link: tens of thousands of files, on a cold disk for minutes.
  const workspace = { folders, settings: { "search.followSymlinks": false } };
  writeFileSync(join(place.folder, "both.code-workspace"), JSON.stringify(workspace));
}

session(
  "several folders",
  { setUp: twoFolders, workspace: "both.code-workspace", file: "ws/model.py" },
  {
    "each folder has its own interpreter, arguments, working folder and runs": async (window, place) => {
      const other = join(place.folder, "other");
      await window.lens("5.20 ms/step").waitFor();
      assert.ok((await window.languageStatus()).join("\n").includes(python));
      // By its whole path, which needs no search through the folders.
      await window.openFile(join(other, "echo.py"));
      const status = async () => (await window.languageStatus()).join("\n");
      await until(async () => (await status()).includes(join(other, "env/bin/python")), "the other interpreter");
      await window.command("Ridgeline: Profile This File");
      await window
        .lens(/of (?:device time|step)/)
        .first()
        .waitFor({ state: "attached", timeout: 120_000 });
      const said = JSON.parse(readFileSync(join(other, "echo.json"), "utf8"));
      const wanted = { argv: ["--data", join(other, "d")], cwd: other, python: join(other, "env/bin/python") };
      assert.deepEqual(said, wanted);
      assert.ok(existsSync(join(place.folder, "runs-of-other")), "its runs are where its folder's setting says");
      await window.screenshot("several-folders");
      await window.openFile("model.py");
      await window.lens("5.20 ms/step").waitFor();
    },
  },
);
