//! Opening what lies below a directory without following a single link, so that nobody can lead the way out of it.
//!
//! Linux does that in one call, `openat2`, since 5.6. Older kernels and sandboxes that forbid the call get a walk: one name
//! after the other, each looked up in the directory opened before it, and none of them a link.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Result, retry_on_intr};

/// A directory that is only passed through. It need not be readable.
#[cfg(target_os = "linux")]
pub(crate) const PASSAGE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// A directory that is only passed through.
#[cfg(not(target_os = "linux"))]
pub(crate) const PASSAGE: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens what `names` leads to from `directory`. `names` is plain: no `..`, and not absolute. A link on the way is an error
/// (`ELOOP`, or `ENOTDIR` where a directory is expected).
pub(crate) fn open(directory: BorrowedFd<'_>, names: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    #[cfg(target_os = "linux")]
    match open_at_once(directory, names, flags, mode) {
        // A kernel without the call, or a sandbox that does not know it. If the file itself is forbidden, so is the walk.
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {}
        outcome => return outcome,
    }
    open_step_by_step(directory, names, flags, mode)
}

#[cfg(target_os = "linux")]
fn open_at_once(directory: BorrowedFd<'_>, names: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};

    let names = if names.as_os_str().is_empty() { Path::new(".") } else { names };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    retry_on_intr(|| openat2(directory, names, flags | OFlags::CLOEXEC, mode, resolve))
}

fn open_step_by_step(directory: BorrowedFd<'_>, names: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    let mut reached: Option<OwnedFd> = None;
    let mut names = names.components();
    let last = names.next_back();
    for name in names {
        let here = reached.as_ref().map_or(directory, |reached| reached.as_fd());
        let next = openat(here, name.as_os_str(), PASSAGE | OFlags::NOFOLLOW, Mode::empty())?;
        reached = Some(next);
    }
    let here = reached.as_ref().map_or(directory, |reached| reached.as_fd());
    let last = last.map_or(std::ffi::OsStr::new("."), |name| name.as_os_str());
    retry_on_intr(|| openat(here, last, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    type Open = fn(BorrowedFd<'_>, &Path, OFlags, Mode) -> Result<OwnedFd>;

    /// Each way to open, by itself.
    const WAYS: [Open; 3] = [
        open,
        open_step_by_step,
        #[cfg(target_os = "linux")]
        open_at_once,
    ];

    #[test]
    fn names_are_followed_and_links_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let place = |name: &str| directory.path().join(name);
        std::fs::create_dir_all(place("a/b")).unwrap();
        std::fs::write(place("a/b/file"), "content").unwrap();
        symlink("a", place("to_directory")).unwrap();
        symlink("a/b/file", place("to_file")).unwrap();
        symlink("none", place("to_nothing")).unwrap();
        let root = File::open(directory.path()).unwrap();
        for open in WAYS {
            let open =
                |names: &str, flags| open(root.as_fd(), Path::new(names), flags, Mode::from_raw_mode(0));
            let mut text = String::new();
            File::from(open("a/b/file", OFlags::RDONLY).unwrap()).read_to_string(&mut text).unwrap();
            assert_eq!(text, "content");
            assert!(open("", OFlags::RDONLY | OFlags::DIRECTORY).is_ok());
            assert_eq!(open("a/none", OFlags::RDONLY).unwrap_err(), rustix::io::Errno::NOENT);
            for link in ["to_directory/b/file", "to_directory/b", "to_file", "to_nothing"] {
                assert!(open(link, OFlags::RDONLY).is_err(), "{link}");
            }
            assert!(open("to_nothing", OFlags::WRONLY | OFlags::CREATE).is_err());
        }
        assert!(!place("none").exists());
    }
}
