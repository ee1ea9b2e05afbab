//! Help whose commands can be pasted.
//!
//! clap wraps all of a help text at the width of the terminal, also the commands in it, and half a command is a mistake in
//! a shell. So lines of commands (indented by four blanks or more, or indented and beginning with the program's name) are taken
//! out before clap sees the text, each replaced by a word that is too short to be wrapped, and put back into what it made of it.

use std::io::{IsTerminal, Write};

use clap::Command;
use clap::error::ErrorKind;

/// What distinguishes a command from the sentence above it.
const INDENT: &str = "    ";

/// Lines that were taken out, in order.
#[derive(Default)]
pub(super) struct Lines(Vec<String>);

impl Lines {
    /// Takes the commands out of the help texts of a command and of its subcommands.
    pub(super) fn take(&mut self, command: Command) -> Command {
        let program = format!("{} ", command.get_name());
        self.take_from(command, &program)
    }

    fn take_from(&mut self, command: Command, program: &str) -> Command {
        let command = match command.get_after_help().map(ToString::to_string) {
            Some(text) => command.after_help(self.without_commands(&text, program)),
            None => command,
        };
        // Only as deep as a program's own commands are.
        command.mut_subcommands(|command| self.take_from(command, program))
    }

    fn without_commands(&mut self, text: &str, program: &str) -> String {
        let mark = |line: &str| {
            let command = line.trim_start();
            let is_command = line.starts_with(INDENT) || (line != command && command.starts_with(program));
            if !is_command {
                return line.to_string();
            }
            self.0.push(command.to_string());
            format!("{}{}", &line[..line.len() - command.len()], word(self.0.len() - 1))
        };
        text.lines().map(mark).collect::<Vec<_>>().join("\n")
    }

    /// Puts the lines back.
    fn put_back(&self, text: &str) -> String {
        let replace = |text: String, (index, line): (usize, &String)| text.replace(&word(index), line);
        self.0.iter().enumerate().fold(text.to_string(), replace)
    }

    /// Prints help where clap would, if that is what clap has to say; its exit code.
    pub(super) fn print(&self, answer: &clap::Error) -> Option<std::io::Result<i32>> {
        if !matches!(
            answer.kind(),
            ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        ) {
            return None;
        }
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_plain = is_set("NO_COLOR") || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let text = |is_terminal: bool| match is_terminal && !is_plain {
            true => self.put_back(&answer.render().ansi().to_string()),
            false => self.put_back(&answer.render().to_string()),
        };
        let (mut stdout, mut stderr) = (std::io::stdout(), std::io::stderr());
        let printed = match answer.use_stderr() {
            true => stderr.write_all(text(stderr.is_terminal()).as_bytes()),
            false => stdout.write_all(text(stdout.is_terminal()).as_bytes()).and_then(|()| stdout.flush()),
        };
        Some(printed.map(|()| answer.exit_code()))
    }
}

/// What stands for a line meanwhile: no blank in it, and nothing that a help text has.
fn word(index: usize) -> String {
    format!("⟦{index}⟧")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_not_wrapped_and_sentences_are() {
        let command_line = format!("train {}", "--flag=value ".repeat(20).trim_end());
        let sentence = "word ".repeat(40);
        let mut lines = Lines::default();
        let help =
            format!("{sentence}\n\nExamples:\n  outer {command_line}\n  This does it:\n    {command_line}");
        let inner = Command::new("inner").after_help(help);
        let mut outer = lines.take(Command::new("outer").subcommand(inner).term_width(60));
        for _ in 0..20 {
            lines.0.push("filler".to_string());
        }
        let inner = outer.find_subcommand_mut("inner").unwrap();
        let text = lines.put_back(&inner.clone().term_width(60).render_help().to_string());
        for expected in [format!("    {command_line}"), format!("  outer {command_line}")] {
            assert!(text.lines().any(|line| line == expected), "{text}");
        }
        assert!(text.lines().all(|line| line.len() <= 60 || line.contains("--flag")), "{text}");
    }
}
