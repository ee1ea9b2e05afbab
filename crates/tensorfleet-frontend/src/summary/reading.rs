//! Event files read back: for tests and tools, without a graph.

use std::path::{Path, PathBuf};

use tensorfleet_core::{Result, Status};
use tensorfleet_files::event_file::EventReader;
use tensorfleet_files::{FileAccess, io_status};
use tensorfleet_proto::tensorflow::Event;

/// The events of an event file, or of all event files of a directory in the order of their names, which is the order
/// in which they were begun. A file that is damaged gives its events up to the damage and then an error; the next
/// file follows. There is an example at [`summary`](crate::summary).
pub fn events(path: impl AsRef<Path>) -> Result<Events> {
    let path = path.as_ref();
    let mut files = if path.is_dir() { event_files(path)? } else { vec![path.to_path_buf()] };
    files.reverse();
    let mut events = Events { later: files, current: None };
    // A file that is missing is reported here and not at the first event.
    events.current = events.later.pop().map(opened).transpose()?;
    Ok(events)
}

fn opened(path: PathBuf) -> Result<EventReader> {
    EventReader::open(&FileAccess::EVERYWHERE, path)
}

fn event_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(directory).map_err(|error| io_status(directory, &error))?;
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| io_status(directory, &error))?;
        // TensorBoard, too, knows event files by this part of their name.
        if entry.file_name().to_string_lossy().contains("tfevents") {
            files.push(entry.path());
        }
    }
    if files.is_empty() {
        let text = format!("{} has no event files (names with 'tfevents')", directory.display());
        return Err(Status::not_found(text));
    }
    files.sort();
    Ok(files)
}

/// Iterator over the events of one or more files; see [`events`].
pub struct Events {
    /// Files still to be read, the next one last.
    later: Vec<PathBuf>,
    current: Option<EventReader>,
}

impl Iterator for Events {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Result<Event>> {
        loop {
            if let Some(event) = self.current.as_mut()?.next() {
                return Some(event);
            }
            match self.later.pop().map(opened).transpose() {
                Ok(next) => self.current = next,
                Err(status) => return Some(Err(status)),
            }
        }
    }
}
