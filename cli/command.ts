/** A command of superchunk: one of commander, with what several commands have in common. */
import { Command as BaseCommand } from "commander";

export class Command extends BaseCommand {
  override createCommand(name?: string): Command {
    return new Command(name);
  }

  /** Adds the option `--allow` of commands that read references and arrays with places. */
  addAllowOption(): this {
    return this.option(
      "--allow <place...>",
      "for references and arrays with places: allow reading from this folder, or below this address (s3://bucket/)",
    );
  }

  /** Adds the options of commands that change an archive under a lock. */
  addLockOptions(): this {
    return this.option("--break-lock", "take the lock from its holder").addAllowOption();
  }

  /** Adds notes and examples after the options in the help. */
  notes(text: string): this {
    return this.addHelpText("after", text);
  }
}
