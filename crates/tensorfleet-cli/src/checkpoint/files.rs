//! From what a user names to an open checkpoint: a prefix, one of its files, or a directory; and clear words about
//! everything else that stands at such a path.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tensorfleet::checkpoint::CheckpointReader;
use tensorfleet::train::{get_checkpoint_state, latest_checkpoint};
use tensorfleet_core::{Code, Result, Status};

/// The last eight bytes of a sorted table, which a checkpoint of the V1 format is as a whole.
const TABLE_MAGIC: u64 = 0xdb47_7524_8b80_fb57;

/// Opens what the user named, and checks that all its files are there.
pub(super) fn open(path: &Path) -> Result<CheckpointReader> {
    let prefix = match path.is_dir() {
        true => newest(path)?,
        false => prefix_of(path)?,
    };
    let reader = CheckpointReader::open(&prefix).map_err(|status| unreadable(&prefix, status))?;
    reader.check_files().map_err(|status| unreadable(&prefix, status))?;
    Ok(reader)
}

/// The newest complete checkpoint of a directory: the one that training would go on from; without a state file the
/// one of the highest step that has an index, and of equal ones the newest.
fn newest(directory: &Path) -> Result<String> {
    let name = text(directory)?;
    if let Some(prefix) = latest_checkpoint(name)? {
        return Ok(prefix);
    }
    let mut found: Vec<(Option<i64>, SystemTime, String)> = Vec::new();
    for prefix in prefixes(directory)? {
        let index = PathBuf::from(format!("{prefix}.index"));
        if let Ok(time) = index.metadata().and_then(|metadata| metadata.modified()) {
            found.push((step_of(&prefix), time, prefix));
        }
    }
    found.sort();
    let is_complete =
        |prefix: &String| CheckpointReader::open(prefix).is_ok_and(|reader| reader.check_files().is_ok());
    let complete = found.iter().rev().map(|(.., prefix)| prefix).find(|prefix| is_complete(prefix));
    match (complete, found.last()) {
        (Some(prefix), _) => Ok(prefix.clone()),
        (None, Some((.., broken))) => Err(Status::data_loss(format!(
            "no checkpoint in {name} is complete, the newest is {broken}; 'tensorfleet checkpoint ls {name}' says what \
             each lacks"
        ))),
        (None, None) => Err(Status::not_found(format!(
            "{name} holds no checkpoint; name the directory that a training saves to (its --log_dir or checkpoint_dir)"
        ))),
    }
}

/// The prefixes that have an index in a directory, by name.
pub(super) fn prefixes(directory: &Path) -> Result<Vec<String>> {
    let mut prefixes = Vec::new();
    for name in names(directory)? {
        if let Some(stem) = name.strip_suffix(".index") {
            prefixes.push(text(&directory.join(stem))?.to_string());
        }
    }
    Ok(prefixes)
}

/// The names of a directory's files, in order. Names that are no text are none of ours.
pub(super) fn names(directory: &Path) -> Result<Vec<String>> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Status::not_found(format!(
            "there is no directory {}; name the one that a training saves to",
            directory.display()
        )),
        std::io::ErrorKind::NotADirectory => Status::invalid_argument(format!(
            "{0} is no directory; 'tensorfleet checkpoint show {0}' shows a single checkpoint",
            directory.display()
        )),
        _ => Status::internal(format!("{} cannot be listed: {error}", directory.display())),
    };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // Pipes and devices would never end.
        if entry.path().is_file() {
            names.extend(entry.file_name().into_string());
        }
    }
    names.sort();
    Ok(names)
}

/// The prefix that a user means with a path that is no directory.
fn prefix_of(path: &Path) -> Result<String> {
    let name = text(path)?;
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if Path::new(&format!("{name}.index")).is_file() {
        return Ok(name.to_string());
    }
    if let Some(prefix) =
        name.strip_suffix(".index").or_else(|| name.strip_suffix(".meta")).or_else(|| data_prefix(name))
        && path.exists()
    {
        return Ok(prefix.to_string());
    }
    if path.is_file() && path.file_name().is_some_and(|name| name == "checkpoint") {
        let state = get_checkpoint_state(text(directory)?)?;
        return match state {
            Some(_) => newest(directory),
            None => Err(Status::data_loss(format!("{name} names no checkpoint"))),
        };
    }
    if path.is_file() {
        return Err(match is_table(path) {
            true => Status::unimplemented(format!(
                "{name} is a checkpoint in TensorFlow's old V1 format, which is not read; restore it in TensorFlow 1.x and \
                 save it with tf.train.Saver(write_version=2)"
            )),
            false => Status::invalid_argument(format!(
                "{name} is not a checkpoint, which is named by its prefix (such as logs/model.ckpt-700), its .index file or \
                 its directory"
            )),
        });
    }
    Err(missing(name, directory))
}

/// The prefix of `PREFIX.data-SSSSS-of-NNNNN`.
pub(super) fn data_prefix(name: &str) -> Option<&str> {
    let (prefix, rest) = name.rsplit_once(".data-")?;
    let (shard, count) = rest.split_once("-of-")?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(shard) && is_number(count)).then_some(prefix)
}

/// The step in a checkpoint's name: 700 of `model.ckpt-700`.
pub(super) fn step_of(name: &str) -> Option<i64> {
    name.rsplit_once('-').and_then(|(_, step)| step.parse().ok())
}

fn missing(name: &str, directory: &Path) -> Status {
    let shown = directory.display();
    let hint = match prefixes(directory) {
        Err(_) => format!("there is no directory {shown}"),
        Ok(prefixes) if prefixes.is_empty() => format!("{shown} holds no checkpoint"),
        Ok(prefixes) => {
            let count = prefixes.len();
            format!("{shown} holds {count}: try 'tensorfleet checkpoint ls {shown}'")
        }
    };
    let data = names(directory).unwrap_or_default();
    let own = Path::new(name).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if data.iter().any(|file| data_prefix(file) == Some(&own)) {
        return Status::data_loss(format!(
            "{name} has data files but no {name}.index: the run ended while it saved, or the file was deleted; {hint}"
        ));
    }
    Status::not_found(format!("there is no checkpoint {name}; {hint}"))
}

/// The error of a checkpoint that cannot be read, with what to do next.
fn unreadable(prefix: &str, status: Status) -> Status {
    let directory = match Path::new(prefix).parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.display().to_string(),
        _ => ".".to_string(),
    };
    let next = format!("'tensorfleet checkpoint ls {directory}' shows which checkpoints are complete");
    match status.code() {
        Code::NotFound if status.text().contains(".data-") => {
            let file = status.text().split(';').next().unwrap_or_default().to_string();
            Status::data_loss(format!("{prefix} lacks its data file {file}; {next}"))
        }
        code => Status::new(code, format!("{prefix} is damaged or incomplete ({}); {next}", status.text())),
    }
}

/// Whether a file ends like a sorted table.
fn is_table(path: &Path) -> bool {
    let read = || -> std::io::Result<u64> {
        let mut file = File::open(path)?;
        let mut bytes = [0; 8];
        file.seek(SeekFrom::End(-8))?;
        file.read_exact(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    };
    read().is_ok_and(|magic| magic == TABLE_MAGIC)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| Status::invalid_argument(format!("{} is not valid UTF-8", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_files_are_known_by_their_names() {
        assert_eq!(data_prefix("m.ckpt-7.data-00000-of-00002"), Some("m.ckpt-7"));
        assert_eq!(data_prefix("m.ckpt-7.data-00000"), None);
        assert_eq!(data_prefix("m.data-x-of-2"), None);
        assert_eq!(data_prefix("m.index"), None);
    }
}
