// Real runs: a program is profiled on the CPU of this machine, from the click to the lens.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { python, root } from "../lib/paths.mjs";
import { scenario, until } from "../lib/scenario.mjs";
import { processes } from "../lib/workbench.mjs";

const RUN_MS = 150_000;
const long = { timeout: 300_000 };

const example = (name) => (place) => cpSync(join(root, "examples", name), join(place.workspace, name));

/** A program that goes on until it is stopped, with workers and a grandchild that ignores SIGINT. */
const STUBBORN = `
import subprocess, sys, time, torch
subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(600)"])
a = torch.randn(256, 256)
print("begun", flush=True)
while True:
    a = (a @ a).tanh()
    time.sleep(0.01)
`;

async function clickProfile(window) {
  await window.page.locator(".editor-actions a[aria-label^='Profile This File']").first().click();
}

const ofWorkspace = (place) => processes().filter(({ command }) => command.includes(place.workspace));

scenario(
  "click, and the lines of a compiled program show their time; to the generated module and back",
  { ...long, setUp: example("compiled_transformer.py"), file: "compiled_transformer.py" },
  async (window, place) => {
    await window.ready();
    const clicked = Date.now();
    await clickProfile(window);
    await window.toast("Profiling compiled_transformer.py").waitFor();
    console.log(`# feedback ${Date.now() - clicked} ms after the click`);
    await until(
      async () => /step \d+|recording|compil|warm/i.test(await window.toast("Profiling").innerText()),
      "a phase",
      RUN_MS,
    );
    await window.screenshot("running");
    await window.lens("/step").first().waitFor({ timeout: RUN_MS });
    console.log(`# first lens ${Math.round((Date.now() - clicked) / 1000)} s after the click`);
    await window.toast("Profiling").waitFor({ state: "detached" });
    await window.goToLine(45);
    const hot = window.lens("/step");
    const lines = await Promise.all((await hot.all()).map((lens) => window.lineBelow(lens)));
    assert.ok(
      lines.some((line) => /self\.(gate|up|down|qkv|out)\(|silu|logits|def forward|loss/.test(line)),
      lines.join("\n"),
    );
    await window.screenshot("profiled");
    await window.hover("F.silu(self.gate(h))", "silu");
    await window.screenshot("profiled-hover");
    await window.goToLine(47, 20);
    await window.page.keyboard.press("F12");
    await until(
      async () => (await window.tabs()).active !== "compiled_transformer.py" || (await window.peeks()),
      "generated code",
    );
    await window.screenshot("profiled-generated");
    assert.ok(existsSync(place.store), "the run is in the store");
  },
);

scenario(
  "an eager program has its time on its lines, its output in the panel, and the tree",
  { ...long, setUp: example("eager_training.py"), file: "eager_training.py" },
  async (window) => {
    await window.ready();
    await clickProfile(window);
    await window.lens("/step").first().waitFor({ timeout: RUN_MS });
    const output = await window.output();
    assert.match(output, /eager_training\.py/);
    await window.command("Ridgeline: Show Hot Kernels, Lines and Findings");
    assert.match((await window.tree()).join("\n"), /aten::|mm/);
    await window.screenshot("eager");
  },
);

scenario(
  "a second click offers to run again; cancel leaves no process",
  { ...long, setUp: (place) => place.write("stubborn.py", STUBBORN), file: "stubborn.py" },
  async (window, place) => {
    await window.ready();
    await clickProfile(window);
    await until(async () => /begun/.test(await window.output().catch(() => "")), "the program runs", RUN_MS);
    await clickProfile(window);
    const second = window.toast("One run at a time");
    await second.waitFor();
    await window.screenshot("second-click");
    assert.ok(ofWorkspace(place).length > 0);
    await second.locator(".codicon-notifications-clear").click();
    await window.press(window.toast("Profiling stubborn.py"), "Cancel");
    await window.toast("Profiling stubborn.py").waitFor({ state: "detached" });
    await until(() => ofWorkspace(place).length === 0, "no process of the run", 10_000);
    await until(
      () => !processes().some(({ command }) => command.includes("signal.SIG_IGN); time.sleep(600)")),
      "no grandchild",
      5_000,
    );
  },
);

scenario(
  "killing the server ends the run too",
  { ...long, setUp: (place) => place.write("stubborn.py", STUBBORN), file: "stubborn.py" },
  async (window, place) => {
    await window.ready();
    await clickProfile(window);
    await until(async () => /begun/.test(await window.output().catch(() => "")), "the program runs", RUN_MS);
    for (const pid of window.serverProcesses()) process.kill(pid, "SIGKILL");
    await until(() => ofWorkspace(place).length === 0, "no process of the run", 5_000);
  },
);

scenario(
  "a program that fails is told with its error, and what it printed",
  {
    ...long,
    setUp: (place) => place.write("broken.py", 'import torch\nprint("so far")\nraise ValueError("no such dataset")\n'),
    file: "broken.py",
  },
  async (window) => {
    await window.ready();
    await clickProfile(window);
    const toast = window.toast(/no such dataset|ValueError/);
    await toast.waitFor({ timeout: RUN_MS });
    await window.screenshot("failed");
    await window.press(toast, "Show Output");
    await until(async () => /so far[\s\S]*no such dataset/.test(await window.output()), "output and traceback");
  },
);

scenario(
  "a module that is missing is named",
  { ...long, setUp: (place) => place.write("needs.py", "import torch\nimport not_installed_here\n"), file: "needs.py" },
  async (window) => {
    await window.ready();
    await clickProfile(window);
    const toast = window.toast("not_installed_here");
    await toast.waitFor({ timeout: RUN_MS });
    await window.screenshot("module-missing");
  },
);

scenario(
  "a program that computes nothing on torch is told so",
  { ...long, setUp: (place) => place.write("idle.py", "import torch\nprint(1 + 1)\n"), file: "idle.py" },
  async (window) => {
    await window.ready();
    await clickProfile(window);
    await window
      .toast(/nothing|Nothing|recorded/)
      .first()
      .waitFor({ timeout: RUN_MS });
    await window.screenshot("nothing-recorded");
  },
);

const ECHO = `
import json, os, sys, torch
json.dump({"argv": sys.argv, "cwd": os.getcwd(), "name": __name__, "TOKEN": os.environ.get("TOKEN"), "FILE": os.environ.get("FILE")},
          open(os.environ.get("ECHO_TO", "echo.json"), "w"))
a = torch.randn(64, 64)
for _ in range(60):
    a = (a @ a).tanh()
`;

scenario(
  "arguments, working folder, environment and env file of the settings reach the program; an edit is saved first",
  {
    ...long,
    setUp: (place) => {
      place.write("sub/echo.py", ECHO);
      place.write(".env", "FILE=from the file\nTOKEN=overridden\n");
      place.settings({
        "ridgeline.run.args": ["--data", "${workspaceFolder}/d"],
        "ridgeline.run.cwd": "${fileDirname}",
        "ridgeline.run.env": { TOKEN: "from the settings" },
        "ridgeline.run.envFile": "${workspaceFolder}/.env",
      });
    },
    file: "sub/echo.py",
  },
  async (window, place) => {
    await window.ready();
    await window.typeAt(1, 1, "edited = True\n");
    await window.command("Ridgeline: Profile This File");
    const echo = join(place.workspace, "sub", "echo.json");
    await until(() => existsSync(echo), "the program ran", RUN_MS);
    await window.toast("Profiling").waitFor({ state: "detached", timeout: RUN_MS });
    const said = JSON.parse(readFileSync(echo, "utf8"));
    assert.deepEqual(said.argv.slice(1), ["--data", join(place.workspace, "d")]);
    assert.equal(said.cwd, join(place.workspace, "sub"));
    assert.deepEqual([said.TOKEN, said.FILE, said.name], ["from the settings", "from the file", "__main__"]);
    assert.match(readFileSync(join(place.workspace, "sub", "echo.py"), "utf8"), /^edited = True/);
  },
);

scenario(
  "an entry of launch.json is profiled with what it says",
  {
    ...long,
    setUp: (place) => {
      place.write("pkg/__init__.py", "");
      place.write("pkg/echo.py", ECHO);
      const entry = {
        name: "Echo as module",
        type: "debugpy",
        request: "launch",
        module: "pkg.echo",
        args: ["--x", "a b"],
      };
      const env = { TOKEN: "from launch.json" };
      place.write(".vscode/launch.json", JSON.stringify({ version: "0.2.0", configurations: [{ ...entry, env }] }));
    },
    file: "pkg/echo.py",
  },
  async (window, place) => {
    await window.ready();
    await window.command("Ridgeline: Profile With…");
    await window.pick("Echo as module");
    const echo = join(place.workspace, "echo.json");
    await until(() => existsSync(echo), "the program ran", RUN_MS);
    await window.toast("Profiling").waitFor({ state: "detached", timeout: RUN_MS });
    const said = JSON.parse(readFileSync(echo, "utf8"));
    assert.deepEqual([said.argv.slice(1), said.name, said.TOKEN], [["--x", "a b"], "__main__", "from launch.json"]);
  },
);

const TEST = `
import torch

class TestProduct:
    def test_tanh(self):
        a = torch.randn(64, 64)
        for _ in range(60):
            a = (a @ a).tanh()
        assert a.shape == (64, 64)

    def test_other(self):
        raise AssertionError("not this one")
`;

scenario(
  "the test under the cursor is profiled by pytest",
  { ...long, setUp: (place) => place.write("test_product.py", TEST), file: "test_product.py" },
  async (window) => {
    await window.ready();
    await window.goToLine(8, 9);
    await window.command("Ridgeline: Profile With…");
    await window.pick("TestProduct::test_tanh");
    await until(async () => /1 passed/.test(await window.output().catch(() => "")), "one test passed", RUN_MS);
  },
);

scenario(
  "a run made in a terminal shows up by itself",
  { ...long, setUp: example("eager_training.py"), file: "eager_training.py" },
  async (window, place) => {
    await window.ready();
    const command = join(python, "..", "ridgeline");
    const args = ["profile", "--quiet", join(place.workspace, "eager_training.py"), "--", "--steps", "60"];
    const environment = { ...process.env, RIDGELINE_RUN_DIR: place.store };
    const done = spawnSync(command, args, {
      cwd: place.workspace,
      env: environment,
      encoding: "utf8",
      timeout: RUN_MS,
    });
    assert.equal(done.status, 0, done.stderr);
    await window.lens("/step").first().waitFor();
  },
);
