// Jumps: from a line to its kernels, from a kernel to its file.
import * as vscode from "vscode";
import type { Location, Position } from "vscode-languageclient/node";
import type { HotKernel, TreeItem } from "./protocol";
import type { Server } from "./server";

export class Navigation {
  constructor(private readonly server: Server) {}

  async goToLocations(target: { uri: string; position: Position; locations: Location[] }): Promise<void> {
    const convert = (await this.server.start()).protocol2CodeConverter;
    const locations = target.locations.map((location) => convert.asLocation(location));
    const from = [vscode.Uri.parse(target.uri), convert.asPosition(target.position)];
    const nothing = "There is no place to go to.";
    await vscode.commands.executeCommand("editor.action.goToLocations", ...from, locations, "peek", nothing);
  }

  /** Opens the generated file of a kernel of the tree, or of one that is picked from the hot kernels. */
  async openKernel(node?: TreeItem): Promise<void> {
    if (node?.file) return void (await vscode.window.showTextDocument(vscode.Uri.parse(node.file)));
    const client = await this.server.start();
    const uri = vscode.window.activeTextEditor?.document.uri.toString();
    const answer = await client.sendRequest<{ kernels: HotKernel[] }>("ridgeline/hotKernels", { uri, limit: 200 });
    const kernels = answer.kernels.filter((kernel) => kernel.generated.length > 0);
    if (!kernels.length) {
      const why = answer.kernels.length
        ? "None of this run's kernels was generated: they come from libraries."
        : "Nothing is measured yet.";
      return void vscode.window.showInformationMessage(why);
    }
    const items = kernels.map((kernel) => ({
      label: kernel.name,
      description: [
        kernel.category,
        kernel.stepSharePct === null ? null : `${kernel.stepSharePct.toFixed(1)} % of step`,
      ]
        .filter(Boolean)
        .join(" · "),
      kernel,
    }));
    const picked = kernels[0]?.id === node?.kernel ? items[0] : items.find((item) => item.kernel.id === node?.kernel);
    const chosen =
      picked ?? (await vscode.window.showQuickPick(items, { title: "Open Kernel File", matchOnDescription: true }));
    const location = chosen?.kernel.generated[0];
    if (!location) return;
    const place = client.protocol2CodeConverter.asLocation(location);
    await vscode.window.showTextDocument(place.uri, { selection: place.range });
  }
}
