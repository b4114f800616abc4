// Which Python runs the program: own setting, the Python extension, its default path, the folder's environment, PATH.
import * as fs from "node:fs/promises";
import * as path from "node:path";
import * as vscode from "vscode";
import { run } from "./subprocess";

export interface Interpreter {
  path: string;
  /** Where the choice came from, in words that a person can act on. */
  origin: string;
  version: [number, number, number] | null;
  torch: string | null;
  /** Why it cannot be used; null when it answered. */
  problem: string | null;
}

interface PythonApi {
  environments: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { path: string };
    resolveEnvironment(env: { path: string }): Promise<{ executable: { uri?: vscode.Uri } } | undefined>;
    onDidChangeActiveEnvironmentPath: vscode.Event<{ path: string }>;
  };
}

export const OLDEST_PYTHON = [3, 10] as const;
const PROBE_TIMEOUT_MS = 20_000;

// Looks for packages by their metadata: importing torch would take seconds.
const PROBE = `
import json, sys
from importlib import metadata
def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
print(json.dumps([sys.version_info[:3], version("torch")]))
`;

export class Interpreters implements vscode.Disposable {
  private readonly probes = new Map<string, Promise<Interpreter>>();
  private readonly changed = new vscode.EventEmitter<void>();
  private readonly subscriptions: vscode.Disposable[] = [this.changed];
  private python: Promise<PythonApi | undefined> | undefined;
  readonly onDidChange = this.changed.event;

  /** `scratch` is a folder of ours: probes run there, so that no file of the workspace can shadow a module. */
  constructor(private readonly scratch: string) {
    this.subscriptions.push(
      vscode.workspace.onDidChangeConfiguration((event) => {
        if (["ridgeline.python", "ridgeline.server.python", "python"].some((key) => event.affectsConfiguration(key)))
          this.refresh();
      }),
      vscode.workspace.onDidGrantWorkspaceTrust(() => this.refresh()),
    );
  }

  /** The interpreter for a document: the first candidate that is named; a named one that does not work is not skipped. */
  async resolve(scope?: vscode.Uri): Promise<Interpreter> {
    for await (const [candidate, origin] of this.candidates(scope)) {
      return this.probe(candidate, origin);
    }
    return this.onPath();
  }

  /** The interpreter for the language server: nothing needs to be installed in it. */
  async forServer(scope?: vscode.Uri): Promise<Interpreter> {
    const named = vscode.workspace.getConfiguration("ridgeline", scope).get<string>("server.python");
    if (named) return this.probe(expand(named, scope), "ridgeline.server.python");
    const ours = await this.resolve(scope);
    return isNewEnough(ours) ? ours : this.onPath();
  }

  /** Forget what was found, because something may have been installed or chosen since. */
  refresh(): void {
    this.probes.clear();
    this.changed.fire();
  }

  private async *candidates(scope?: vscode.Uri): AsyncGenerator<[string, string]> {
    const own = vscode.workspace.getConfiguration("ridgeline", scope).get<string>("python");
    if (own) yield [expand(own, scope), "ridgeline.python"];
    // What follows may name a program that the folder brought along.
    if (!vscode.workspace.isTrusted) return;
    const chosen = await this.fromPythonExtension(scope);
    if (chosen) yield [chosen, "Python extension"];
    const fallback = vscode.workspace.getConfiguration("python", scope).get<string>("defaultInterpreterPath");
    if (fallback && fallback !== "python") yield [expand(fallback, scope), "python.defaultInterpreterPath"];
    const folder = folderOf(scope);
    for (const name of folder ? [".venv", "venv"] : []) {
      const bin = process.platform === "win32" ? ["Scripts", "python.exe"] : ["bin", "python"];
      const candidate = path.join(folder as string, name, ...bin);
      if (await exists(candidate)) yield [candidate, name];
    }
  }

  private async fromPythonExtension(scope?: vscode.Uri): Promise<string | undefined> {
    this.python ??= this.activatePythonExtension();
    const api = await this.python;
    const active = api?.environments.getActiveEnvironmentPath(scope);
    if (!api || !active) return undefined;
    const resolved = await api.environments.resolveEnvironment(active);
    return resolved?.executable.uri?.fsPath;
  }

  private async activatePythonExtension(): Promise<PythonApi | undefined> {
    const extension = vscode.extensions.getExtension<PythonApi>("ms-python.python");
    const api = extension?.isActive ? extension.exports : await extension?.activate();
    if (!api?.environments) return undefined;
    this.subscriptions.push(api.environments.onDidChangeActiveEnvironmentPath(() => this.refresh()));
    return api;
  }

  private async onPath(): Promise<Interpreter> {
    const first = await this.probe(process.platform === "win32" ? "python" : "python3", "PATH");
    return first.problem ? this.probe("python", "PATH") : first;
  }

  private probe(candidate: string, origin: string): Promise<Interpreter> {
    const key = `${candidate}\0${origin}`;
    const known = this.probes.get(key) ?? this.ask(candidate, origin);
    this.probes.set(key, known);
    return known;
  }

  private async ask(candidate: string, origin: string): Promise<Interpreter> {
    const found: Interpreter = { path: candidate, origin, version: null, torch: null, problem: null };
    try {
      await fs.mkdir(this.scratch, { recursive: true });
      const args = vscode.workspace.isTrusted ? ["-c", PROBE] : ["-I", "-c", PROBE];
      const answer = await run(candidate, args, { cwd: this.scratch, timeoutMs: PROBE_TIMEOUT_MS });
      if (answer.status !== 0) {
        const why = answer.stderr.trim().split("\n").pop() || `exit status ${answer.status ?? "killed"}`;
        return { ...found, problem: `${candidate} does not run: ${why}` };
      }
      const [version, torch] = JSON.parse(answer.stdout.trim().split("\n").pop() ?? "");
      return { ...found, version, torch };
    } catch (error) {
      const missing = (error as NodeJS.ErrnoException).code === "ENOENT";
      const why = missing ? "there is no such program" : (error as Error).message;
      return { ...found, problem: `${candidate}: ${why}` };
    }
  }

  dispose(): void {
    for (const subscription of this.subscriptions) subscription.dispose();
  }
}

export function isNewEnough({ version }: Interpreter): boolean {
  return version !== null && (version[0] > OLDEST_PYTHON[0] || version[1] >= OLDEST_PYTHON[1]);
}

export function folderOf(scope?: vscode.Uri): string | undefined {
  const folder = scope && vscode.workspace.getWorkspaceFolder(scope);
  return (folder ?? vscode.workspace.workspaceFolders?.[0])?.uri.fsPath;
}

/** Replaces the few variables that settings and launch.json entries use; an unknown one stays as it is. */
export function expand(value: string, scope?: vscode.Uri): string {
  const file = scope?.fsPath ?? vscode.window.activeTextEditor?.document.fileName ?? "";
  const known: Record<string, string | undefined> = {
    workspaceFolder: folderOf(scope),
    workspaceRoot: folderOf(scope),
    file,
    fileDirname: path.dirname(file),
    fileBasenameNoExtension: path.parse(file).name,
    userHome: process.env.HOME ?? process.env.USERPROFILE,
  };
  const home = value.startsWith("~/") ? `${known.userHome}${value.slice(1)}` : value;
  return home.replace(/\$\{(env:)?([^}]+)\}/g, (whole, env, name) =>
    env ? (process.env[name] ?? "") : (known[name] ?? whole),
  );
}

async function exists(file: string): Promise<boolean> {
  return fs.access(file).then(
    () => true,
    () => false,
  );
}
