// What to profile besides the file as it is. The server knows what there is; here a person chooses, and types what is asked.
import * as vscode from "vscode";
import type { ProfileParams, Target } from "./protocol";
import type { Server } from "./server";

/** Undefined when the person turned away. */
export async function chooseTarget(server: Server, editor: vscode.TextEditor): Promise<ProfileParams | undefined> {
  const client = await server.start();
  const at = { uri: editor.document.uri.toString(), line: editor.selection.active.line };
  const targets = await client.sendRequest<Target[]>("ridgeline/targets", at);
  const items = targets.map((target) => ({ ...target, label: `$(${target.icon}) ${target.label}` }));
  const picked = await vscode.window.showQuickPick(items, { title: "Profile With", matchOnDescription: true });
  if (!picked?.ask) return picked?.params;
  const words = await vscode.window.showInputBox(picked.ask);
  return words === undefined ? undefined : { ...picked.params, words };
}
