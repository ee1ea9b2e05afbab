//! Tests of the gate to files.

use tensorfleet_core::Code;

use super::*;
use crate::AtomicFile;

fn code(access: &FileAccess, path: impl AsRef<Path>) -> Option<Code> {
    access.check(path).err().map(|status| status.code())
}

#[test]
fn without_directories_everything_is_allowed() {
    assert_eq!(code(&FileAccess::EVERYWHERE, "/etc/passwd"), None);
    assert_eq!(code(&FileAccess::default(), "no/such/../file"), None);
    assert_eq!(code(&FileAccess::nowhere(), "/etc/passwd"), Some(Code::PermissionDenied));
}

#[test]
fn paths_below_a_root_are_allowed_whether_they_exist_or_not() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("there"), "x").unwrap();
    let access = FileAccess::below(&[root.path().to_path_buf()]).unwrap();
    for path in ["there", "new", "new/deeper/file", "."] {
        assert_eq!(code(&access, root.path().join(path)), None, "{path}");
    }
}

#[test]
fn dots_links_and_neighbours_do_not_lead_out() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    std::fs::create_dir_all(root.join("inside")).unwrap();
    std::fs::create_dir(directory.path().join("root2")).unwrap();
    std::os::unix::fs::symlink(directory.path(), root.join("up")).unwrap();
    std::os::unix::fs::symlink(root.join("inside"), root.join("in")).unwrap();
    std::os::unix::fs::symlink("/nowhere/at/all", root.join("dangling")).unwrap();
    let access = FileAccess::below(std::slice::from_ref(&root)).unwrap();
    assert_eq!(code(&access, root.join("in/new")), None);
    assert_eq!(code(&access, root.join("inside/../inside/new")), None);
    for outside in ["..", "../root2/file", "up/file", "inside/../../x", "new/../../x"] {
        assert_eq!(code(&access, root.join(outside)), Some(Code::PermissionDenied), "{outside}");
    }
    assert!(access.check(root.join("dangling")).is_err());
    assert!(access.check("relative").is_err());
}

#[test]
fn an_error_names_the_path_the_roots_and_what_to_do() {
    let root = tempfile::tempdir().unwrap();
    let access = FileAccess::below(&[root.path().to_path_buf()]).unwrap();
    let text = access.check("/etc/hosts").unwrap_err().to_string();
    for part in ["/etc/hosts", &*root.path().canonicalize().unwrap().to_string_lossy(), "--allow-files"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_root_must_be_a_directory_that_exists() {
    assert!(FileAccess::below(&["/no/such/directory".into()]).is_err());
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(FileAccess::below(&[file.path().to_path_buf()]).is_err());
}

#[test]
fn files_inside_are_read_written_listed_renamed_and_removed() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    let access = FileAccess::below(&[directory.path().to_path_buf()]).unwrap();
    access.create_dir_all(place("a/b")).unwrap();
    for text in ["one ", "two"] {
        std::io::Write::write_all(&mut access.append(place("a/b/file")).unwrap(), text.as_bytes()).unwrap();
    }
    std::os::unix::fs::symlink(place("a/b"), place("to_b")).unwrap();
    assert_eq!(access.read(place("to_b/file")).unwrap(), b"one two");
    assert!(access.is_file(place("to_b/file")) && access.exists(place("a")) && !access.is_file(place("a")));
    assert!(!access.exists(place("none")) && access.exists(directory.path()));
    let (from, to) = (access.entry(place("a/b/file")).unwrap(), access.entry(place("a/moved")).unwrap());
    from.rename(&to).unwrap();
    to.sync_directory().unwrap();
    let mut names = access.names_in(place("a")).unwrap();
    names.sort();
    assert_eq!(names, ["b", "moved"]);
    to.remove_file().unwrap();
    access.entry(place("a/b")).unwrap().remove_dir().unwrap();
    assert_eq!(access.names_in(place("a")).unwrap().len(), 0);
    assert_eq!(access.open(place("a/moved")).unwrap_err().code(), Code::NotFound);
}

#[test]
fn nothing_outside_is_opened_listed_or_made() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    for name in ["root", "outside"] {
        std::fs::create_dir(place(name)).unwrap();
    }
    std::fs::write(place("outside/secret"), "secret").unwrap();
    std::os::unix::fs::symlink(place("outside"), place("root/way_out")).unwrap();
    std::os::unix::fs::symlink("../outside/secret", place("root/secret")).unwrap();
    let access = FileAccess::below(&[place("root")]).unwrap();
    for path in ["outside/secret", "root/way_out/secret", "root/secret", "root/../outside/secret"] {
        let denied = |outcome: Option<Status>| {
            assert_eq!(outcome.map(|status| status.code()), Some(Code::PermissionDenied), "{path}");
        };
        denied(access.open(place(path)).err());
        denied(access.append(place(path)).err());
        denied(AtomicFile::create(&access, place(path)).err());
        assert!(!access.exists(place(path)) && !access.is_file(place(path)));
    }
    assert!(access.names_in(place("root/way_out")).is_err());
    assert!(access.create_dir_all(place("root/way_out/new")).is_err());
    assert!(access.entry(place("root/way_out/new")).is_err() && access.entry(place("root/..")).is_err());
    assert_eq!(place("outside").read_dir().unwrap().count(), 1);
}

#[test]
fn a_directory_that_is_removed_and_made_anew_is_still_allowed() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let access = FileAccess::below(std::slice::from_ref(&root)).unwrap();
    std::fs::remove_dir(&root).unwrap();
    assert!(access.append(root.join("file")).is_err());
    std::fs::create_dir(&root).unwrap();
    access.append(root.join("file")).unwrap();
    assert!(root.join("file").exists());
}

/// Somebody turns a link inside the allowed directory back and forth between a directory inside and one outside, as fast as
/// possible. What is opened, listed, made, renamed or removed meanwhile lies inside every time.
#[test]
fn a_link_that_turns_all_the_time_leads_nobody_out() {
    use std::sync::atomic::{AtomicBool, Ordering};

    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    for name in ["root", "root/inside", "outside"] {
        std::fs::create_dir(place(name)).unwrap();
    }
    std::fs::write(place("root/inside/file"), "inside").unwrap();
    std::fs::write(place("outside/file"), "outside").unwrap();
    let access = FileAccess::below(&[place("root")]).unwrap();
    let (link, is_over) = (place("root/link"), AtomicBool::new(false));
    let (targets, next) = ([place("root/inside"), place("outside")], place("root/next"));
    std::os::unix::fs::symlink(&targets[0], &link).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for target in targets.iter().cycle() {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                std::os::unix::fs::symlink(target, &next).unwrap();
                std::fs::rename(&next, &link).unwrap();
            }
        });
        let (mut allowed, mut refused) = (0, 0);
        for attempt in 0..3000 {
            let read = access.read(link.join("file"));
            match &read {
                Ok(bytes) => assert_eq!(bytes, b"inside", "attempt {attempt}"),
                Err(_) => refused += 1,
            }
            allowed += i32::from(read.is_ok());
            if let Ok(mut file) = AtomicFile::create(&access, link.join("new")) {
                file.write(b"x").unwrap();
                file.commit().unwrap();
            }
            if let Ok(names) = access.names_in(&link) {
                assert!(!names.iter().any(|name| name == "only_outside"));
            }
            let _ = access.append(link.join("appended"));
            let _ = access.create_dir_all(link.join("made/deep"));
            let _ = access.entry(link.join("new")).and_then(|entry| entry.remove_file());
            if attempt == 0 {
                std::fs::write(place("outside/only_outside"), "").unwrap();
            }
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(allowed > 0 && refused > 0, "the link did not turn: {allowed} allowed, {refused} refused");
    });
    let mut outside: Vec<_> =
        place("outside").read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    outside.sort();
    assert_eq!(outside, ["file", "only_outside"]);
}
