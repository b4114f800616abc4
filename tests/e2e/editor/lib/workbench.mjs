// One window of the editor, in the words of a person who uses it. Selectors are those of VS Code 1.139.
import { readdirSync, readFileSync, readlinkSync, statSync } from "node:fs";
import { join } from "node:path";
import { screenshots } from "./paths.mjs";
import { until } from "./until.mjs";

/** Long, for a test machine may be slow; what is there is not waited for. */
const TIMEOUT = 60_000;
/** VS Code writes no-break spaces into its views. */
const plain = (text) => text.replaceAll("\u00a0", " ").replaceAll("\u200b", "");

export class Workbench {
  constructor(page, editor, workspace) {
    this.page = page;
    this.editor = editor;
    this.workspace = workspace;
    page.setDefaultTimeout(TIMEOUT);
  }

  async load(file) {
    this.loaded = Date.now();
    const authority = `127.0.0.1:${this.editor.port}`;
    const several = this.workspace.endsWith(".code-workspace");
    const query = new URLSearchParams({ [several ? "workspace" : "folder"]: this.workspace });
    const path = join(this.workspace, several ? ".." : "", file ?? "");
    if (file) query.set("payload", JSON.stringify([["openFile", `vscode-remote://${authority}${path}`]]));
    await this.page.goto(`http://${authority}/?${query}`);
    await this.page.waitForSelector(".monaco-workbench");
    if (file) await this.activeTab(file.split("/").pop());
  }

  /** Between two scenarios: nothing above the text, no other tab, and `file` as it is on disk. */
  async settle(file) {
    for (let i = 0; i < 3; i++) await this.page.keyboard.press("Escape");
    if (await this.page.locator(".notifications-toasts.visible").count())
      await this.command("Notifications: Clear All");
    await this.revert();
    await this.command("View: Close All Editors");
    await this.hidePanel();
    await this.openFile(file);
  }

  async revert() {
    while (await this.page.locator(".tab.dirty").count()) await this.command("View: Revert and Close Editor");
  }

  async hidePanel() {
    if (await this.page.locator(".part.panel").isVisible()) await this.page.keyboard.press("Control+j");
  }

  /** A blank page first: closing a workbench directly leaves its extension host behind for minutes. */
  async close() {
    await this.page.goto("about:blank");
    await this.page.context().close();
  }

  async screenshot(name) {
    await this.page.screenshot({ path: join(screenshots, `${name}.png`) });
  }

  async activeTab(name) {
    await this.page.locator(".tab.active", { hasText: name }).waitFor();
  }

  // Palette

  async quickInput(text) {
    const input = this.page.locator(".quick-input-widget:visible input.input");
    await input.waitFor();
    await input.fill(text);
  }

  async command(title) {
    await this.quickly("F1", `>${title}`, title);
  }

  async openFile(name) {
    const base = name.split("/").pop();
    await this.quickly("Control+p", name, base);
    await this.activeTab(base);
  }

  /**
   * Opens a quick input by `key`, types `text` and takes the row with `title`. While a window is still loading the editor
   * takes the focus now and then, which closes the input; a person would press the key again, and so do we.
   */
  async quickly(key, text, title) {
    const input = this.page.locator(".quick-input-widget:visible input.input");
    const row = this.page.locator(".quick-input-list .monaco-list-row", { hasText: title }).first();
    for (let attempt = 1; ; attempt++) {
      try {
        await this.page.keyboard.press(key);
        await input.fill(text, { timeout: 4_000 });
        await row.waitFor({ timeout: 6_000 });
        await this.page.waitForTimeout(100);
        if ((await row.getAttribute("class", { timeout: 1_000 })).includes("focused"))
          await this.page.keyboard.press("Enter");
        else await row.click({ timeout: 2_000 });
        return;
      } catch (error) {
        if (attempt === 8) throw error;
        await this.page.keyboard.press("Escape");
      }
    }
  }

  async goToLine(line, column = 1) {
    await this.page.keyboard.press("Control+g");
    await this.quickInput(`:${line}:${column}`);
    await this.page.keyboard.press("Enter");
  }

  async pick(text) {
    await this.page.locator(".quick-input-list .monaco-list-row", { hasText: text }).first().click();
  }

  async quickPickItems() {
    const rows = this.page.locator(".quick-input-list .monaco-list-row");
    await rows.first().waitFor();
    return (await rows.evaluateAll((all) => all.map((row) => row.getAttribute("aria-label")))).map(plain);
  }

  // The text and what stands on it

  viewLine(text) {
    return this.page.locator(".editor-instance .view-line", { hasText: text }).first();
  }

  lens(text) {
    return this.page.locator(".editor-instance .codelens-decoration a", { hasText: text });
  }

  async lenses() {
    return (await this.page.locator(".editor-instance .codelens-decoration").allInnerTexts()).map(plain);
  }

  /** The text of the line that a lens stands above, by its place on the screen. */
  async lineBelow(lens) {
    const text = await lens.first().evaluate((element) => {
      const above = element.getBoundingClientRect().y;
      const lines = [...document.querySelectorAll(".editor-instance .view-lines .view-line")];
      const placed = lines.map((line) => ({ y: line.getBoundingClientRect().y, text: line.textContent }));
      return placed.filter((line) => line.y > above).sort((one, other) => one.y - other.y)[0]?.text;
    });
    return plain(text ?? "");
  }

  /** Inlay hints by the text of their line. */
  async hint(text) {
    const hint = this.viewLine(text).locator('span[class*="dyn-rule"]').last();
    await hint.waitFor();
    return plain(await hint.innerText());
  }

  async hover(line, word) {
    const hover = this.page.locator(".monaco-hover:visible .hover-contents");
    await this.pointAt(this.viewLine(line).locator("span span", { hasText: word }).first(), hover.first());
    // It fades in; a screenshot should have it whole.
    await hover.first().evaluate((element) => {
      const fading = element.closest(".monaco-hover").getAnimations({ subtree: true });
      return Promise.all(fading.map((animation) => animation.finished.catch(() => undefined))).then(() => undefined);
    });
    return hover;
  }

  /** Rests the mouse on something until `shown` is there; what is drawn anew meanwhile takes a hover away. */
  async pointAt(target, shown) {
    for (let attempt = 1; ; attempt++) {
      try {
        await this.page.mouse.move(5, 5);
        await target.hover();
        await shown.waitFor({ timeout: 8_000 });
        return;
      } catch (error) {
        if (attempt === 8) throw error;
      }
    }
  }

  async typeAt(line, column, text) {
    await this.goToLine(line, column);
    await this.page.keyboard.type(text);
  }

  async save() {
    await this.page.keyboard.press("Control+s");
    await this.page.waitForFunction(() => !document.querySelector(".tab.active.dirty"));
  }

  /** The gutter icons of the heat map from top to bottom: `dark-3`, `light-stale`. */
  async gutter() {
    const marks = this.page.locator(".editor-instance .glyph-margin-widgets .cgmr");
    const images = await marks.evaluateAll((all) => {
      const placed = all.map((mark) => [mark.getBoundingClientRect().y, getComputedStyle(mark).backgroundImage]);
      return placed.sort((a, b) => a[0] - b[0]).map(([, image]) => image);
    });
    return images.flatMap((image) => /gutter\/([\w-]+)\.svg/.exec(decodeURIComponent(image))?.[1] ?? []);
  }

  /** `Ln 3, Col 1`, as the status bar says. */
  async position() {
    return plain(await this.page.locator('[id="status.editor.selection"]').innerText());
  }

  async currentLine() {
    const line = await this.page.locator(".editor-instance .current-line").first().boundingBox();
    const lines = await this.page.locator(".editor-instance .view-line").all();
    for (const candidate of lines) {
      const box = await candidate.boundingBox();
      if (line && box && Math.abs(box.y - line.y) < 3) return plain(await candidate.innerText());
    }
    return "";
  }

  async tabs() {
    const names = await this.page.locator(".tab").allInnerTexts();
    const active = await this.page.locator(".tab.active").first().innerText();
    return { names: names.map(plain), active: plain(active).trim() };
  }

  peeks() {
    return this.page.locator(".peekview-widget").isVisible();
  }

  /** The server runs, as the language status says. */
  async ready() {
    await until(() => /Server ready/.test(this.log()), "the server is ready", TIMEOUT);
  }

  // Panels and messages

  async problems() {
    await this.page.keyboard.press("Control+Shift+m");
    await this.page.locator(".markers-panel .monaco-list-row").first().waitFor();
    return (await this.page.locator(".markers-panel .monaco-list-row").allInnerTexts()).map(plain);
  }

  toast(text) {
    return this.page.locator(".notifications-toasts .notification-list-item", { hasText: text });
  }

  async press(toast, button) {
    await toast.getByRole("button", { name: button }).click();
  }

  async tree() {
    await this.page.locator('.pane-body [role="tree"], .pane-body .tree-explorer-viewlet-tree-view').first().waitFor();
    const rows = this.page.locator(".tree-explorer-viewlet-tree-view .monaco-list-row");
    await rows.first().waitFor();
    return (await rows.allInnerTexts()).map(plain);
  }

  /** The tree's rows, once one of them matches. */
  async treeWith(pattern) {
    return until(async () => {
      const rows = await this.tree();
      return rows.some((row) => pattern.test(row)) && rows;
    }, `the tree has ${pattern}`);
  }

  treeItem(text) {
    return this.page.locator(".tree-explorer-viewlet-tree-view .monaco-list-row", { hasText: text }).first();
  }

  async output() {
    const lines = this.page.locator(".output-view .view-line");
    await lines.first().waitFor();
    return (await lines.allInnerTexts()).map(plain).join("\n");
  }

  /** The language status: what stands behind the braces of the status bar. */
  async languageStatus() {
    const details = this.page.locator(".hover-language-status");
    await this.pointAt(this.page.locator('[id="status.languageStatus"]'), details.first());
    return (await details.allInnerTexts()).map(plain);
  }

  /** All text of the active editor, as far as it is on the screen. */
  async text() {
    return (await this.page.locator(".editor-instance .view-line").allInnerTexts()).map(plain).join("\n");
  }

  /** Process ids of language servers that this test's editor started. */
  serverProcesses() {
    const mark = join(this.editor.extensions, "");
    const isServer = (command) => command.includes("boot.py") && command.includes(mark);
    return processes()
      .filter(({ command }) => isServer(command))
      .map(({ pid }) => pid);
  }

  /** What the extension of this window wrote into its log. */
  log() {
    const folder = join(this.editor.user, "logs");
    const found = readdirSync(folder, { recursive: true }).filter((name) => /Ridgeline\.log$/.test(name));
    const dated = found.map((name) => ({ path: join(folder, name), time: statSync(join(folder, name)).birthtimeMs }));
    const newest = dated.sort((a, b) => b.time - a.time)[0];
    return newest && newest.time >= this.loaded ? readFileSync(newest.path, "utf8") : "";
  }
}

/** All processes of this machine with their command lines and working folders. */
export function processes() {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.flatMap((pid) => {
    try {
      const command = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
      return [{ pid: Number(pid), command, cwd: readlinkSync(`/proc/${pid}/cwd`) }];
    } catch {
      return []; // It ended while we looked.
    }
  });
}
