// Interpreters, and the life of the server.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmodSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { python } from "../lib/paths.mjs";
import { scenario, until } from "../lib/scenario.mjs";

const PROFILE = "Ridgeline: Profile This File";

/** An interpreter that answers probes as it is told to, without being one. */
function fakePython(place, name, answer) {
  place.write(name, `#!/bin/sh\necho '${answer}'\n`);
  chmodSync(join(place.workspace, name), 0o755);
  return join(place.workspace, name);
}

scenario("the language status names the state, the interpreter and torch", {}, async (window) => {
  await window.ready();
  const text = (await window.languageStatus()).join("\n");
  assert.match(text, /Ridgeline: ready/);
  assert.match(text, /Python 3\.\d+\.\d+/);
  assert.match(text, /torch 2\./);
  assert.ok(text.includes(python), text);
  await window.screenshot("language-status");
});

scenario(
  "an interpreter that is not there is said, with a button to choose another",
  {
    setUp: (place) => place.settings({ "ridgeline.python": "/nowhere/bin/python" }),
  },
  async (window) => {
    await window.viewLine("import torch").waitFor();
    await window.command(PROFILE);
    const toast = window.toast("/nowhere/bin/python");
    await toast.waitFor();
    await window.screenshot("no-interpreter");
    await window.press(toast, "Select Interpreter");
    const items = await window.quickPickItems();
    assert.ok(items.some((item) => item.includes("Choose a file")));
  },
);

scenario(
  "an interpreter without torch is refused before anything runs",
  {
    setUp: (place) => {
      execFileSync(python, ["-m", "venv", "--without-pip", join(place.workspace, "bare")]);
      place.settings({ "ridgeline.python": "${workspaceFolder}/bare/bin/python" });
    },
  },
  async (window) => {
    await window.ready();
    await window.command(PROFILE);
    const toast = window.toast("torch");
    await toast.waitFor();
    await window.screenshot("no-torch");
    assert.match((await window.languageStatus()).join("\n"), /no torch/);
  },
);

scenario(
  "the environment in the folder is chosen when nothing is named",
  {
    setUp: (place) => {
      symlinkSync(join(python, "..", ".."), join(place.workspace, ".venv"));
      place.settings({ "ridgeline.python": "" });
    },
  },
  async (window) => {
    await window.ready();
    assert.match((await window.languageStatus()).join("\n"), /ws\/\.venv\/bin\/python \(\.venv\)/);
  },
);

scenario(
  "a Python that is too old for the server is said, and the system's is not tried behind one's back",
  {
    setUp: (place) =>
      place.settings({ "ridgeline.server.python": fakePython(place, "old.sh", "[[3, 8, 18], null, false]") }),
  },
  async (window) => {
    await until(() => /old\.sh is Python 3\.8\.18; 3\.10 is needed/.test(window.log()), "the log says why");
    const text = (await window.languageStatus()).join("\n");
    assert.match(text, /no server/);
    assert.match(text, /3\.10 is needed/);
  },
);

scenario(
  "a killed server is started again, and its results come back",
  { setUp: (place) => place.storeRun() },
  async (window) => {
    await window.lens("5.20 ms/step").waitFor();
    const [pid] = window.serverProcesses();
    process.kill(pid, "SIGKILL");
    await until(() => window.serverProcesses().some((other) => other !== pid), "another server");
    await until(
      async () => (await window.lenses()).some((text) => text.includes("5.20 ms/step")),
      "the lenses are back",
    );
  },
);

scenario(
  "Restart Server starts a fresh one; the old one is gone",
  { setUp: (place) => place.storeRun() },
  async (window) => {
    await window.lens("5.20 ms/step").waitFor();
    const [pid] = window.serverProcesses();
    await window.command("Ridgeline: Restart Server");
    await until(() => window.serverProcesses().length === 1 && window.serverProcesses()[0] !== pid, "one other server");
    await window.lens("5.20 ms/step").waitFor();
  },
);

scenario("closing the window ends the server", {}, async (window) => {
  await window.ready();
  assert.equal(window.serverProcesses().length, 1);
  await window.page.goto("about:blank");
  await until(() => window.serverProcesses().length === 0, "no server", 30_000);
});

scenario(
  "Debug Information is a document with what a report needs, and no environment",
  {
    setUp: (place) => place.settings({ "ridgeline.run.env": { TOKEN: "s3cret-value" } }),
  },
  async (window) => {
    await window.ready();
    await window.command("Ridgeline: Debug Information");
    await window.viewLine('"ridgeline": "0.1.0"').waitFor();
    const text = await window.text();
    assert.match(text, /"state": "ready"/);
    assert.doesNotMatch(text, /s3cret-value/);
  },
);

scenario(
  "the choice of the Python extension is followed, and a change of it",
  {
    editor: "python-extension",
    start: { stub: true, machine: { "ridgeline.python": null } },
    setUp: (place) => place.write("chosen.txt", python),
  },
  async (window, place) => {
    await window.ready();
    assert.match((await window.languageStatus()).join("\n"), /\(Python extension\)/);
    place.write("chosen.txt", fakePython(place, "other.sh", '[[3, 12, 1], "2.9.0", false]'));
    await window.command("Stub: Environment Changed");
    await until(async () => /torch 2\.9\.0/.test((await window.languageStatus()).join("\n")), "the other interpreter");
  },
);
