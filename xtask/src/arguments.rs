//! Arguments of a command: options are taken by name, the rest in order, and what is left over is an error.

/// The arguments that nobody has taken yet.
pub(crate) struct Arguments(Vec<String>);

impl Arguments {
    /// Those of this process, without the program's name.
    pub(crate) fn from_environment() -> Arguments {
        Arguments(std::env::args().skip(1).collect())
    }

    /// Takes `--name`; whether it was there.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|argument| argument != name);
        self.0.len() < before
    }

    /// Takes `--name VALUE`.
    pub(crate) fn option(&mut self, name: &str) -> Result<Option<String>, String> {
        let Some(position) = self.0.iter().position(|argument| argument == name) else { return Ok(None) };
        if position + 1 >= self.0.len() {
            return Err(format!("{name} needs a value"));
        }
        self.0.remove(position);
        Ok(Some(self.0.remove(position)))
    }

    /// Takes `--name NUMBER`.
    pub(crate) fn number(&mut self, name: &str) -> Result<Option<u32>, String> {
        let text = self.option(name)?;
        let parse = |text: String| text.parse().map_err(|_| format!("{name} needs a number, got '{text}'"));
        text.map(parse).transpose()
    }

    /// Takes the first argument that is no option. Options with values must have been taken before.
    pub(crate) fn positional(&mut self) -> Option<String> {
        let position = self.0.iter().position(|argument| !argument.starts_with("--"))?;
        Some(self.0.remove(position))
    }

    /// Everything that nobody has taken, for another program.
    pub(crate) fn rest(self) -> Vec<String> {
        self.0
    }

    /// Checks that nothing is left.
    pub(crate) fn finish(&self) -> Result<(), String> {
        match self.0.first() {
            None => Ok(()),
            Some(argument) => Err(format!("unexpected argument '{argument}'; see `cargo xtask help`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(text: &str) -> Arguments {
        Arguments(text.split_whitespace().map(String::from).collect())
    }

    #[test]
    fn options_are_taken_by_name_and_the_rest_in_order() {
        let mut arguments = arguments("vectors --tier 2 some/dir --verbose");
        assert_eq!(arguments.positional().as_deref(), Some("vectors"));
        assert_eq!(arguments.number("--tier"), Ok(Some(2)));
        assert!(arguments.flag("--verbose") && !arguments.flag("--verbose"));
        assert_eq!(arguments.positional().as_deref(), Some("some/dir"));
        assert_eq!((arguments.positional(), arguments.finish()), (None, Ok(())));
    }

    #[test]
    fn mistakes_are_named() {
        assert!(arguments("--tier").number("--tier").unwrap_err().contains("needs a value"));
        assert!(arguments("--tier x").number("--tier").unwrap_err().contains("'x'"));
        assert!(arguments("--teir 1").finish().unwrap_err().contains("--teir"));
    }
}
