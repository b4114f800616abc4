// What to profile besides the file as it is: arguments, `-m`, the test under the cursor, entries of launch.json.
import * as vscode from "vscode";
import { expand } from "./interpreter";
import type { ProfileParams } from "./protocol";

interface LaunchEntry {
  name?: string;
  type?: string;
  request?: string;
  program?: string;
  module?: string;
  args?: string[] | string;
  cwd?: string;
  env?: Record<string, string>;
  envFile?: string;
  python?: string | string[];
}

interface Choice extends vscode.QuickPickItem {
  params: () => Promise<ProfileParams | undefined>;
}

/** Asks what to run; undefined when the person turned away. */
export async function chooseTarget(document: vscode.TextDocument, line: number): Promise<ProfileParams | undefined> {
  const uri = document.uri.toString();
  const choices: Choice[] = [
    { label: "$(terminal) With arguments…", description: "once", params: () => askArguments({ uri }) },
    {
      label: "$(package) As a module (python -m)…",
      description: moduleName(document.uri),
      params: () => askModule(document),
    },
  ];
  const test = testAt(document, line);
  if (test) {
    const args = [`${document.fileName}::${test}`];
    choices.push({
      label: `$(beaker) The test ${test}`,
      description: "pytest",
      params: async () => ({ uri, module: "pytest", args }),
    });
  }
  for (const entry of launchEntries(document.uri)) {
    const description = entry.module ? `-m ${entry.module}` : (entry.program ?? "");
    choices.push({
      label: `$(debug-alt) ${entry.name}`,
      description,
      params: async () => fromLaunch(entry, document.uri),
    });
  }
  const picked = await vscode.window.showQuickPick(choices, { title: "Profile With", matchOnDescription: true });
  return picked?.params();
}

/** Splits as a POSIX shell would, without expanding anything. */
export function splitArguments(text: string): string[] {
  const words = text.match(/(?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+/g) ?? [];
  return words.map((word) =>
    word.replace(
      /\\(.)|"((?:[^"\\]|\\.)*)"|'([^']*)'/g,
      (_, escaped, double, single) => escaped ?? single ?? String(double).replace(/\\(["\\$`])/g, "$1"),
    ),
  );
}

async function askArguments(params: ProfileParams): Promise<ProfileParams | undefined> {
  const text = await vscode.window.showInputBox({ title: "Arguments", placeHolder: "--epochs 1 --name 'a b'" });
  return text === undefined ? undefined : { ...params, args: splitArguments(text) };
}

async function askModule(document: vscode.TextDocument): Promise<ProfileParams | undefined> {
  const options = { title: "Module and Arguments", value: moduleName(document.uri), prompt: "As after python -m" };
  const [module, ...args] = splitArguments((await vscode.window.showInputBox(options)) ?? "");
  return module ? { uri: document.uri.toString(), module, args } : undefined;
}

function moduleName(uri: vscode.Uri): string {
  return vscode.workspace
    .asRelativePath(uri, false)
    .replace(/(\/__(main|init)__)?\.py$/, "")
    .replaceAll("/", ".");
}

/** The pytest node under the cursor, without the file: `TestClass::test_name`, or the function alone. */
function testAt(document: vscode.TextDocument, line: number): string | undefined {
  const names: string[] = [];
  let indent = Number.POSITIVE_INFINITY;
  for (let at = line; at >= 0; at--) {
    const found = /^(\s*)(?:async\s+def|def|class)\s+(\w+)/.exec(document.lineAt(at).text);
    if (!found || (found[1] as string).length >= indent) continue;
    indent = (found[1] as string).length;
    names.unshift(found[2] as string);
  }
  return names.some((name) => name.startsWith("test")) ? names.join("::") : undefined;
}

function launchEntries(uri: vscode.Uri): LaunchEntry[] {
  const entries = vscode.workspace.getConfiguration("launch", uri).get<LaunchEntry[]>("configurations") ?? [];
  const isPython = ({ type, request }: LaunchEntry) =>
    ["python", "debugpy"].includes(type ?? "") && request !== "attach";
  return entries.filter((entry) => isPython(entry) && (entry.program || entry.module));
}

function fromLaunch(entry: LaunchEntry, scope: vscode.Uri): ProfileParams {
  const text = (value: string) => expand(value, scope);
  const python = Array.isArray(entry.python) ? entry.python[0] : entry.python;
  const args = typeof entry.args === "string" ? splitArguments(entry.args) : (entry.args ?? []);
  return {
    uri: entry.program ? vscode.Uri.file(text(entry.program)).toString() : scope.toString(),
    args: args.map(text),
    ...(entry.module && { module: text(entry.module) }),
    ...(entry.cwd && { cwd: text(entry.cwd) }),
    ...(entry.env && {
      env: Object.fromEntries(Object.entries(entry.env).map(([name, value]) => [name, text(value)])),
    }),
    ...(entry.envFile && { envFile: text(entry.envFile) }),
    ...(python && { python: text(python) }),
  };
}
