//! `tensorfleet completions`: what a shell needs to complete the command's words.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::terminal;

pub(crate) const HELP: &str = "\
The script goes to standard output. To have it in every new shell:

  bash        tensorfleet completions bash > ~/.local/share/bash-completion/completions/tensorfleet
  zsh         tensorfleet completions zsh > ~/.zfunc/_tensorfleet
              (with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc)
  fish        tensorfleet completions fish > ~/.config/fish/completions/tensorfleet.fish
  elvish      tensorfleet completions elvish >> ~/.config/elvish/rc.elv
  powershell  tensorfleet completions powershell >> $PROFILE

For this shell only (bash):
  source <(tensorfleet completions bash)";

/// Arguments of `completions`.
#[derive(Args, Debug)]
pub(crate) struct CompletionsArguments {
    /// The shell.
    pub(crate) shell: Shell,
}

pub(crate) fn run(arguments: &CompletionsArguments) {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "tensorfleet", &mut script);
    terminal::print(&String::from_utf8_lossy(&script));
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_shell_gets_a_script_that_knows_the_commands() {
        for &shell in Shell::value_variants() {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "tensorfleet", &mut script);
            let script = String::from_utf8(script).unwrap();
            for word in ["checkpoint", "export", "serve", "completions"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }
}
