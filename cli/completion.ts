/** `superchunk completion`: prints what a shell needs to complete commands and options. */
import { Argument, type Command as BaseCommand, type Option } from "commander";
import type { Command, Context } from "./context.ts";

const SHELLS = ["bash", "zsh", "fish"] as const;
type Shell = (typeof SHELLS)[number];

export function addCompletion(program: Command, context: Context): void {
  program
    .command("completion")
    .description("print a completion script for a shell: commands, options and their values")
    .addArgument(new Argument("<shell>", "the shell that reads it").choices(SHELLS))
    .notes(`
For bash and zsh, put the line into ~/.bashrc or ~/.zshrc (after compinit):
  eval "$(superchunk completion bash)"
  source <(superchunk completion zsh)

Examples:
  superchunk completion fish > superchunk.fish`)
    // All commands have been added by then.
    .action((shell: Shell) => context.out.text(SCRIPTS[shell](program.commands)));
}

const SCRIPTS: Readonly<Record<Shell, (commands: readonly BaseCommand[]) => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
};

/** The name of an option as users type it. */
const typed = ({ long, short }: Option): string => long ?? short ?? "";

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** Words of the first argument: those that a command takes, and for `help` all commands. */
const firstWords = (commands: readonly BaseCommand[]): (readonly [command: string, words: string])[] => [
  ["help", commands.map((each) => each.name()).join(" ")],
  ...commands.flatMap((each) => {
    const words = each.registeredArguments[0]?.argChoices;
    return words === undefined ? [] : [[each.name(), words.join(" ")] as const];
  }),
];

function bashScript(commands: readonly BaseCommand[]): string {
  const options = commands.map(
    (each) => `    ${each.name()}) words="${each.options.map(typed).join(" ")} --help" ;;`,
  );
  const first = firstWords(commands).map(([name, words]) => `    "${name} ${name}") values="${words}" ;;`);
  const values = commands.flatMap((each) =>
    each.options.flatMap((option) =>
      option.argChoices === undefined
        ? []
        : [`    "${each.name()} ${typed(option)}") values="${option.argChoices.join(" ")}" ;;`],
    ),
  );
  return `_superchunk() {
  local word="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}" command="\${COMP_WORDS[1]}" words="" values=""
  if [ "$COMP_CWORD" = 1 ]; then
    COMPREPLY=($(compgen -W "${commands.map((each) => each.name()).join(" ")} help" -- "$word"))
    return
  fi
  case "$command $before" in
${[...first, ...values].join("\n")}
  esac
  if [ -n "$values" ]; then COMPREPLY=($(compgen -W "$values" -- "$word")); return; fi
  case "$word" in -*) ;; *) local IFS=$'\\n'; COMPREPLY=($(compgen -f -- "$word")); return ;; esac
  case "$command" in
${options.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o filenames -F _superchunk superchunk
`;
}

function zshScript(commands: readonly BaseCommand[]): string {
  // Colons and brackets would end the description.
  const described = (text: string): string => text.replaceAll(/[[\]:]/g, " ");
  const names = commands.map(
    (each) => `    ${quoted(`${each.name()}:${described(each.summary() || each.description())}`)}`,
  );
  names.push("    'help:print the help of a command'");
  const first = new Map(firstWords(commands));
  const cases = commands.map((each) => {
    const options = each.options.map((option) => {
      const name = `${typed(option)}[${described(option.description)}]`;
      const value = option.argChoices === undefined ? ":value:" : `:value:(${option.argChoices.join(" ")})`;
      return `      ${quoted(option.required || option.optional ? name + value : name)}`;
    });
    const words = first.get(each.name());
    const paths = words === undefined ? "      '*:path:_files'" : `      '1:word:(${words})'`;
    return `    ${each.name()}) _arguments \\\n${[...options, paths].join(" \\\n")} ;;`;
  });
  cases.push(`    help) _arguments '1:command:(${first.get("help")})' ;;`);
  return `#compdef superchunk
_superchunk() {
  local -a names=(
${names.join("\n")}
  )
  if (( CURRENT == 2 )); then _describe command names; return; fi
  local command="$words[2]"
  shift words
  (( CURRENT-- ))
  case "$command" in
${cases.join("\n")}
  esac
}
compdef _superchunk superchunk
`;
}

function fishScript(commands: readonly BaseCommand[]): string {
  const lines = commands.flatMap((each) => [
    `complete -c superchunk -n __fish_use_subcommand -a ${each.name()} -d ${quoted(each.description())}`,
    ...each.options.map((option) => {
      const long = option.long === undefined ? "" : ` -l ${option.long.slice(2)}`;
      const short = option.short === undefined ? "" : ` -s ${option.short.slice(1)}`;
      const values = option.argChoices === undefined ? "" : ` -x -a ${quoted(option.argChoices.join(" "))}`;
      const value = values === "" && (option.required || option.optional) ? " -r" : values;
      const where = `'__fish_seen_subcommand_from ${each.name()}'`;
      return `complete -c superchunk -n ${where}${long}${short}${value} -d ${quoted(option.description)}`;
    }),
  ]);
  for (const [name, words] of firstWords(commands))
    lines.push(`complete -c superchunk -n '__fish_seen_subcommand_from ${name}' -x -a ${quoted(words)}`);
  return `${lines.join("\n")}\n`;
}
