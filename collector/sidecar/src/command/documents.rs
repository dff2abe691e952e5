//! `phasemeter completions` and `phasemeter man`: what shells and `man` know of the command line, made from it.

use clap::CommandFactory;
use clap_mangen::Man;
use phasemeter_cli::{Cli, CompletionsArgs, ManArgs};

use super::bill::print;
use super::error::CommandError;

/// Prints the completions of a shell.
pub(super) fn completions(args: &CompletionsArgs) -> Result<(), CommandError> {
    let mut command = visible();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, env!("CARGO_PKG_NAME"), &mut script);
    print(&script)
}

/// Prints the page of the program, or writes those of all commands.
pub(super) fn man(args: &ManArgs) -> Result<(), CommandError> {
    let command = visible();
    if let Some(directory) = &args.directory {
        return clap_mangen::generate_to(command, directory)
            .map_err(CommandError::write(directory));
    }
    let mut page = Vec::new();
    Man::new(command).render(&mut page).map_err(CommandError::Output)?;
    print(&page)
}

/// The command line without what is for this program alone.
fn visible() -> clap::Command {
    let all = Cli::command();
    let shown = all.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let shown: Vec<_> = shown.collect();
    let arguments: Vec<_> = all.get_arguments().cloned().collect();
    let about = all.get_about().cloned().unwrap_or_default();
    let bare = clap::Command::new(env!("CARGO_PKG_NAME")).about(about);
    let bare = bare.version(env!("CARGO_PKG_VERSION"));
    bare.subcommand_required(true).args(arguments).subcommands(shown)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;
    use clap_complete::Shell;

    use super::*;

    fn all(shell: Shell) -> String {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut visible(), "phasemeter", &mut script);
        String::from_utf8(script).unwrap()
    }

    /// `compile-policy` and its like are run by this program only.
    #[test]
    fn each_shell_completes_commands_and_options_but_not_what_is_hidden() {
        let hidden = Cli::command();
        let hidden: Vec<_> = hidden.get_subcommands().filter(|it| it.is_hide_set()).collect();
        assert_eq!(hidden.len(), 3);
        for shell in Shell::value_variants() {
            let script = all(*shell);
            for known in ["audit", "overlay", "gpu-count", "log-format", "sharing"] {
                assert!(script.contains(known), "{shell}: {known}");
            }
            for hidden in &hidden {
                assert!(!script.contains(hidden.get_name()), "{shell}: {}", hidden.get_name());
            }
        }
    }

    #[test]
    fn command_line_without_what_is_hidden_parses_the_same() {
        visible().debug_assert();
        let line = ["phasemeter", "--log-level", "warn", "audit", "a.csv", "--price", "3"];
        visible().try_get_matches_from(line).unwrap();
    }
}
