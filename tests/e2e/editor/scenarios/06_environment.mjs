// The analysis environment: built at the first profile where the program's interpreter has none.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { python } from "../lib/paths.mjs";
import { session, until } from "../lib/scenario.mjs";

const PROGRAM = "import torch\na = torch.randn(64, 64)\nfor _ in range(200):\n    a = (a @ a).tanh()\n";

/** An interpreter that has this machine's torch, and neither ridgeline nor the packages of its analysis. */
function onlyTorch(place) {
  const folder = join(place.folder, "only-torch");
  execFileSync(python, ["-m", "venv", folder]);
  const bin = join(folder, "bin", "python");
  const ask = (code, which) => execFileSync(which, ["-c", code], { encoding: "utf8" }).trim();
  const packages = "import sysconfig; print(sysconfig.get_paths()['purelib'])";
  const [theirs, ours] = [ask(packages, python), ask(packages, bin)];
  const link = `
import importlib.metadata as m, os, re
done, todo = set(), ["torch"]
while todo:
    name = todo.pop()
    if name in done:
        continue
    done.add(name)
    try:
        files = m.files(name) or []
        requires = m.requires(name) or []
    except m.PackageNotFoundError:
        continue
    for top in {f.parts[0] for f in files if f.parts[0] not in ("..", "__pycache__")}:
        if not os.path.lexists(os.path.join(${JSON.stringify(ours)}, top)):
            os.symlink(os.path.join(${JSON.stringify(theirs)}, top), os.path.join(${JSON.stringify(ours)}, top))
    todo += [re.match(r"[\\w.-]+", r).group() for r in requires if "extra ==" not in r]
`;
  execFileSync(python, ["-c", link]);
  place.write("small.py", PROGRAM);
  place.write("wheels/none.txt", "");
  place.settings({ "ridgeline.python": bin, "ridgeline.analysis.wheelhouse": join(place.workspace, "wheels") });
}

const options = { setUp: onlyTorch, file: "small.py", timeout: 400_000 };

session(
  "the analysis environment",
  { ...options, editor: "fresh" },
  {
    "one that cannot be built is told with its cause": async (window) => {
      await window.ready();
      await window.command("Ridgeline: Profile This File");
      await window.toast("Could not install the analysis packages").waitFor({ timeout: 100_000 });
      await window.screenshot("no-wheels");
    },

    "the first profile builds it, and says so": async (window, place) => {
      // Another name of the interpreter: the status shows when the settings without the wheels have arrived.
      const bin = join(place.folder, "only-torch", "bin");
      symlinkSync(join(bin, "python"), join(bin, "python-again"));
      place.settings({ "ridgeline.python": join(bin, "python-again") });
      await until(
        async () => /python-again/.test((await window.languageStatus()).join("\n")),
        "the settings are there",
      );
      await window.command("Ridgeline: Profile This File");
      await window.toast(/[Bb]uilding the analysis environment|Collecting|Downloading|Installing/).waitFor();
      await window.screenshot("building");
      await window
        .lens(/\d\s?(?:ns|µs|ms|s|min)(?:\/step)?\s·/)
        .first()
        .waitFor({ timeout: 300_000 });
      const built = readdirSync(join(window.editor.home, "state", "ridgeline", "analysis"));
      assert.equal(built.length, 1, "one environment, in the user's state folder");
    },
  },
);
