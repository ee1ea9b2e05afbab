//! `tensorfleet completions`: what a shell needs to complete the command's words.

use clap::{Args, Command};
use clap_complete::Shell;

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

/// Prints the script for the command line that `command` describes.
pub(crate) fn run(arguments: &CompletionsArguments, command: &mut Command) {
    terminal::print(&script(arguments.shell, command));
}

pub(crate) fn script(shell: Shell, command: &mut Command) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, command, "tensorfleet", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
