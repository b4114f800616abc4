// What went wrong, in words, with buttons that help.
import * as vscode from "vscode";

/** Something that a person can mend: what is wrong, and buttons (title to command) that help. */
export class Problem extends Error {
  constructor(
    message: string,
    readonly buttons: Record<string, string>,
  ) {
    super(message);
  }
}

/** An error with buttons, each of which runs a command. */
export async function ask(text: string, buttons: Record<string, string>): Promise<void> {
  const picked = await vscode.window.showErrorMessage(text, ...Object.keys(buttons));
  const command = picked && buttons[picked];
  if (command) await vscode.commands.executeCommand(command);
}
