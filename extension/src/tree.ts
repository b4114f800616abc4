// The tree of hot kernels, lines and findings. The server decides what stands in it; here it becomes items that jump.
import * as vscode from "vscode";
import type { RunInfo, Tree, TreeGroup, TreeItem } from "./protocol";
import type { Server } from "./server";

type Node = TreeGroup | TreeItem;

const SORTS = [
  { label: "$(clock) Time per step", sort: "total" },
  { label: "$(symbol-ruler) Median duration", sort: "median" },
  { label: "$(symbol-numeric) Number of launches", sort: "count" },
  { label: "$(lightbulb) Possible saving", sort: "saving" },
  { label: "$(case-sensitive) Name", sort: "name" },
] as const;

export class HotTree implements vscode.TreeDataProvider<Node>, vscode.Disposable {
  private tree: Tree = { run: null, note: null, groups: [] };
  private sort = "total";
  private filter = "";
  private readonly changed = new vscode.EventEmitter<undefined>();
  private readonly view: vscode.TreeView<Node>;
  readonly onDidChangeTreeData = this.changed.event;

  /** `shown` is told of the run whose results stand in the tree. */
  constructor(
    private readonly server: Server,
    private readonly shown: (run: RunInfo | null) => void,
  ) {
    this.view = vscode.window.createTreeView<Node>("ridgeline.hot", { treeDataProvider: this, showCollapseAll: true });
  }

  show(tree: Tree): void {
    this.tree = tree;
    this.shown(tree.run);
    this.view.message = [tree.note, this.filter && `Filter: “${this.filter}”`].filter(Boolean).join("\n");
    vscode.commands.executeCommand("setContext", "ridgeline.hasResults", tree.run !== null);
    this.changed.fire(undefined);
  }

  get run(): RunInfo | null {
    return this.tree.run;
  }

  clear(): void {
    this.show({ run: null, note: null, groups: [] });
  }

  /** A new run is shown. The server does not know how this view is sorted and filtered, so ask when it is. */
  async receive(tree: Tree): Promise<void> {
    if (this.sort === "total" && !this.filter) this.show(tree);
    else await this.refresh();
  }

  async refresh(): Promise<void> {
    const client = this.server.running;
    if (client) this.show(await client.sendRequest<Tree>("ridgeline/tree", { sort: this.sort, filter: this.filter }));
  }

  async pickSort(): Promise<void> {
    const items = SORTS.map((item) => ({ ...item, description: item.sort === this.sort ? "now" : "" }));
    const picked = await vscode.window.showQuickPick(items, { title: "Sort Hot Kernels By" });
    if (!picked) return;
    this.sort = picked.sort;
    await this.refresh();
  }

  async askFilter(): Promise<void> {
    const prompt = "Part of a kernel's name, category, operator or source file. Empty: everything.";
    const filter = await vscode.window.showInputBox({ title: "Filter", prompt, value: this.filter });
    if (filter === undefined) return;
    this.filter = filter.trim();
    await this.refresh();
  }

  /** Selects the item of the line under the cursor: its own row, else a finding or a kernel of it. */
  async reveal(): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    const uri = editor?.document.uri.toString();
    const at = editor?.selection.active.line;
    const isHere = ({ location }: TreeItem) => location?.uri === uri && location?.range.start.line === at;
    const groups = [...this.tree.groups].sort(
      (one, other) => Number(other.id === "lines") - Number(one.id === "lines"),
    );
    const found = groups.flatMap((group) => group.items).find(isHere);
    if (found) await this.view.reveal(found, { select: true, focus: true });
    else vscode.window.setStatusBarMessage("$(info) Ridgeline: nothing of the list is on this line", 5_000);
  }

  getChildren(node?: Node): Node[] {
    if (!node) return this.tree.groups.filter((group) => group.items.length > 0);
    return "items" in node ? node.items : [];
  }

  getTreeItem(node: Node): vscode.TreeItem {
    if ("items" in node) {
      const item = new vscode.TreeItem(node.label, vscode.TreeItemCollapsibleState.Expanded);
      item.id = node.id;
      item.description = node.description;
      return item;
    }
    const item = new vscode.TreeItem(node.label);
    item.id = node.id;
    item.description = node.description;
    item.tooltip = new vscode.MarkdownString(node.tooltip, true);
    item.iconPath = new vscode.ThemeIcon(node.icon);
    item.contextValue = node.file ? `${node.contextValue} generated` : node.contextValue;
    if (node.location) {
      const location = this.server.running?.protocol2CodeConverter.asLocation(node.location);
      const options = { selection: location?.range, preserveFocus: false };
      item.command = { title: "Go to Line", command: "vscode.open", arguments: [location?.uri, options] };
    } else if (node.kernel && node.contextValue === "kernel") {
      item.command = { title: "Open Kernel File", command: "ridgeline.openKernel", arguments: [node] };
    }
    return item;
  }

  getParent(node: Node): Node | undefined {
    return "items" in node ? undefined : this.tree.groups.find((group) => group.items.includes(node));
  }

  dispose(): void {
    this.view.dispose();
    this.changed.dispose();
  }
}
