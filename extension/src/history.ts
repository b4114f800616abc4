// Which run is shown, and which one later runs are compared with: a list of this program's runs to choose and pin from.
import * as vscode from "vscode";
import type { RunInfo } from "./protocol";
import type { Server } from "./server";

interface Entry extends vscode.QuickPickItem {
  run: RunInfo | null;
}

const PIN = { iconPath: new vscode.ThemeIcon("pin"), tooltip: "Compare later runs with this one" };
const UNPIN = { iconPath: new vscode.ThemeIcon("pinned"), tooltip: "Compare each run with the one before it" };

export async function chooseRun(server: Server): Promise<void> {
  const client = await server.start();
  const uri = vscode.window.activeTextEditor?.document.uri.toString();
  const ofFile = await client.sendRequest<RunInfo[]>("ridgeline/runs", { uri });
  const runs = ofFile.length ? ofFile : await client.sendRequest<RunInfo[]>("ridgeline/runs", {});
  const picker = vscode.window.createQuickPick<Entry>();
  picker.title = "Show a Run";
  picker.placeholder = runs.length
    ? "The pinned run is the one that later runs are compared with"
    : "There is no run yet";
  picker.matchOnDescription = true;
  picker.items = [{ label: "$(history) The newest, always", run: null }, ...runs.map(entry)];
  picker.onDidTriggerItemButton(async ({ item, button }) => {
    picker.hide();
    await vscode.commands.executeCommand("ridgeline.server.pin", { run: item.run?.id, pinned: button === PIN });
  });
  picker.onDidAccept(async () => {
    const [picked] = picker.selectedItems;
    picker.hide();
    await vscode.commands.executeCommand("ridgeline.server.selectRun", { run: picked?.run?.id ?? null });
  });
  picker.onDidHide(() => picker.dispose());
  picker.show();
}

const milliseconds = (us: number) => (us / 1000).toLocaleString(undefined, { maximumSignificantDigits: 3 });

function entry(run: RunInfo): Entry {
  const made = new Date(run.created).toLocaleString();
  const step = run.stepUs && run.steps ? `${run.steps} steps of ${milliseconds(run.stepUs)} ms` : "";
  const rank = run.rank === null ? "" : `rank ${run.rank}`;
  const description = [step, run.device, rank].filter(Boolean).join(" · ");
  return {
    label: `${run.pinned ? "$(pinned)" : "$(circle-outline)"} ${made}`,
    description,
    buttons: [run.pinned ? UNPIN : PIN],
    run,
  };
}
