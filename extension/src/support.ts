// Choices and reports that a person asks for: the interpreter, which annotations show, what to put into a bug report.
import * as vscode from "vscode";
import type { Interpreters } from "./interpreter";
import type { Server } from "./server";

const ANNOTATIONS = [
  ["lenses", "Code lenses"],
  ["hints", "Inlay hints"],
  ["hovers", "Hovers"],
  ["diagnostics", "Findings in the Problems panel"],
  ["heatMap", "Heat map"],
] as const;

export async function selectInterpreter(interpreters: Interpreters): Promise<void> {
  const scope = vscode.window.activeTextEditor?.document.uri;
  const now = await interpreters.resolve(scope);
  const own = { label: "$(folder-opened) Choose a file…", act: () => chooseFile(scope) };
  const automatic = {
    label: "$(sync) Automatic",
    description: "forget ridgeline.python",
    act: () => setPython(undefined, scope),
  };
  const items = [own, automatic];
  if (vscode.extensions.getExtension("ms-python.python")) {
    const command = "python.setInterpreter";
    const act = async () => void (await vscode.commands.executeCommand(command));
    items.unshift({ label: "$(symbol-namespace) Ask the Python extension…", act });
  }
  const placeHolder = `Now: ${now.problem ?? now.path} (${now.origin}, ${now.torch ? `torch ${now.torch}` : "no torch"})`;
  const picked = await vscode.window.showQuickPick(items, { title: "Interpreter That Runs Your Program", placeHolder });
  await picked?.act();
  interpreters.refresh();
}

async function chooseFile(scope?: vscode.Uri): Promise<void> {
  const [file] = (await vscode.window.showOpenDialog({ title: "Python Interpreter", openLabel: "Use" })) ?? [];
  if (file) await setPython(file.fsPath, scope);
}

/** For the folder of the file, or for all files where there is no folder. */
async function setPython(python: string | undefined, scope?: vscode.Uri): Promise<void> {
  const folders = vscode.workspace.workspaceFolders ?? [];
  const several = folders.length > 1 && scope && vscode.workspace.getWorkspaceFolder(scope);
  const { Global, Workspace, WorkspaceFolder } = vscode.ConfigurationTarget;
  const target = several ? WorkspaceFolder : folders.length ? Workspace : Global;
  await vscode.workspace.getConfiguration("ridgeline", scope).update("python", python, target);
}

export async function toggleAnnotations(): Promise<void> {
  const settings = vscode.workspace.getConfiguration("ridgeline.annotations");
  const items = ANNOTATIONS.map(([key, label]) => ({ key, label, picked: settings.get<boolean>(key) ?? true }));
  const picked = await vscode.window.showQuickPick(items, { title: "Show on the Lines", canPickMany: true });
  if (!picked) return;
  for (const item of items) {
    const wanted = picked.includes(item);
    if (wanted !== item.picked) await settings.update(item.key, wanted, vscode.ConfigurationTarget.Global);
  }
}

/** Opens a document with what a report of a problem needs. It names paths, but no environment variables. */
export async function debugInfo(
  context: vscode.ExtensionContext,
  server: Server,
  interpreters: Interpreters,
): Promise<void> {
  const scope = vscode.window.activeTextEditor?.document.uri;
  const information = {
    ridgeline: context.extension.packageJSON.version,
    editor: `${vscode.env.appName} ${vscode.version}`,
    host: {
      remote: vscode.env.remoteName ?? null,
      platform: `${process.platform} ${process.arch}`,
      node: process.version,
    },
    trusted: vscode.workspace.isTrusted,
    server: {
      state: server.state,
      failure: server.failure ?? null,
      interpreter: server.interpreter ?? null,
      version: server.running?.initializeResult?.serverInfo?.version ?? null,
    },
    program: await interpreters.resolve(scope),
    settings: vscode.workspace.getConfiguration("ridgeline", scope),
  };
  const content = JSON.stringify(information, (key, value) => (key === "env" ? "(left out)" : value), 2);
  await vscode.window.showTextDocument(await vscode.workspace.openTextDocument({ language: "json", content }));
}
