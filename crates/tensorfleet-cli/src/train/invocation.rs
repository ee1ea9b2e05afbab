//! How this program was called, so that the commands it suggests can be copied.

use clap::Parser;

use super::arguments::MnistArguments;

/// What stands before a subcommand: `tensorfleet`, a path, or `cargo run --release --`.
pub(super) fn command() -> String {
    // Cargo sets this for what it runs, and a clone that was just built has no `tensorfleet` in its PATH.
    if std::env::var_os("CARGO_MANIFEST_DIR").is_some() {
        let profile = if cfg!(debug_assertions) { "" } else { "--release " };
        return format!("cargo run {profile}--");
    }
    std::env::args_os().next().map_or_else(|| "tensorfleet".into(), |name| quoted(&name.to_string_lossy()))
}

/// The words after [`command`] that go on with a training, up to `steps`: with all that was said about it.
pub(super) fn resume(arguments: &MnistArguments, log_dir: &str, steps: u64) -> String {
    let default = Defaults::parse_from(["mnist"]).arguments;
    let mut text = format!("train mnist --log_dir {}", quoted(log_dir));
    let mut say = |flag: &str, value: String, default: String| {
        if value != default {
            text.push_str(&format!(" --{flag} {}", quoted(&value)));
        }
    };
    say("ps", arguments.num_ps().to_string(), default.num_ps().to_string());
    say("workers", arguments.num_workers().to_string(), default.num_workers().to_string());
    say("backup", arguments.backup.to_string(), default.backup.to_string());
    say("hidden_units", arguments.hidden_units.to_string(), default.hidden_units.to_string());
    say("batch_size", arguments.batch_size.to_string(), default.batch_size.to_string());
    say("learning_rate", arguments.learning_rate.to_string(), default.learning_rate.to_string());
    say("seed", arguments.seed.to_string(), default.seed.to_string());
    say("wait", arguments.wait.as_secs_f64().to_string(), default.wait.as_secs_f64().to_string());
    say(
        "save-every",
        arguments.save_every.as_secs_f64().to_string(),
        default.save_every.as_secs_f64().to_string(),
    );
    say("steps", steps.to_string(), String::new());
    if arguments.sync {
        text.push_str(" --sync");
    }
    if let Some(count) = arguments.min_replicas {
        text.push_str(&format!(" --min_replicas {count}"));
    }
    if let Some(dir) = &arguments.data_dir {
        text.push_str(&format!(" --data_dir {}", quoted(&dir.to_string_lossy())));
    }
    text
}

/// The arguments as they are if nothing is said.
#[derive(Parser)]
struct Defaults {
    #[command(flatten)]
    arguments: MnistArguments,
}

/// `text` as a shell reads it.
pub(super) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_string(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_was_said_about_a_training_is_said_again() {
        let resumed = |flags: &str| {
            let words = std::iter::once("mnist").chain(flags.split_whitespace());
            resume(&Defaults::parse_from(words).arguments, "/tmp/run", 600)
        };
        assert_eq!(resumed(""), "train mnist --log_dir /tmp/run --steps 600");
        assert!(resumed("--sync --min_replicas 1").ends_with(" --sync --min_replicas 1"));
        assert_eq!(resumed("--sync --steps 300"), "train mnist --log_dir /tmp/run --steps 600 --sync");
        let flags = "--ps 2 --workers 3 --hidden_units 50 --batch_size 50 --learning_rate 0.01 --seed 7";
        assert_eq!(resumed(flags), format!("train mnist --log_dir /tmp/run {flags} --steps 600"));
        assert!(resumed("--save_every=0.5").contains(" --save-every 0.5 "));
        assert!(resumed("--data_dir=my_digits").ends_with(" --data_dir my_digits"));
    }

    #[test]
    fn paths_can_be_copied_into_a_shell() {
        assert_eq!(quoted("/tmp/run-1"), "/tmp/run-1");
        assert_eq!(quoted("my run"), "'my run'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
