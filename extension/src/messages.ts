// What went wrong, in words, with buttons that help.
import * as vscode from "vscode";

/** Titles of buttons, and the command behind each, with its arguments where it has any. */
export type Buttons = Record<string, string | [command: string, ...args: unknown[]]>;

/** Something that a person can mend: what is wrong, and buttons that help. */
export class Problem extends Error {
  constructor(
    message: string,
    readonly buttons: Buttons,
  ) {
    super(message);
  }
}

/** An error with buttons, each of which runs a command. */
export async function ask(text: string, buttons: Buttons): Promise<void> {
  const picked = await vscode.window.showErrorMessage(text, ...Object.keys(buttons));
  const [command, ...args] = [picked ? buttons[picked] : undefined].flat();
  if (command) await vscode.commands.executeCommand(command as string, ...args);
}
