//! What the system grants this process, and what the process takes of it.
//!
//! A process may be bounded by its machine, by a control group (a container's), and by limits of its own (`ulimit`, `prlimit`).
//! The least of them counts. Groups and machines count pages that are touched, and kill who takes too many; a limit of address
//! space counts what is mapped, and makes allocations fail, most of which cannot be refused politely. So the account gets a
//! share of either only, and what the process really takes is looked at now and then.

use std::fmt;
use std::fs;
use std::path::Path;

/// If nobody tells.
const UNKNOWN: usize = 8 << 30;

/// What version 1 says of a group without a limit is a number close to this.
const NO_LIMIT: usize = 1 << 60;

/// The limit of the account if nobody sets one.
pub(super) fn default_limit() -> usize {
    let resident = resident_limit(Path::new("/")).map(|bytes| bytes / 5 * 4);
    // Of address space more is taken that nobody asked for: stacks, heaps' reserves, programs.
    let mapped = mapped_limit(Path::new("/")).map(|bytes| bytes / 4 * 3);
    resident.into_iter().chain(mapped).min().unwrap_or(UNKNOWN)
}

/// How many bytes of pages the machine or a control group of this process grants.
fn resident_limit(root: &Path) -> Option<usize> {
    machine_bytes(root).into_iter().chain(group_limits(root)).min()
}

fn machine_bytes(root: &Path) -> Option<usize> {
    kilobytes(&fs::read_to_string(root.join("proc/meminfo")).ok()?, "MemTotal:")
}

/// The limits of the control groups that this process is in, from its own up to the outermost that can be seen.
fn group_limits(root: &Path) -> Vec<usize> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut limits = Vec::new();
    for line in groups.lines() {
        // `hierarchy:controllers:path`; version 2 has neither number nor controllers.
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let (mounts, file) = match controllers {
            "" => (["sys/fs/cgroup", "sys/fs/cgroup/unified"], "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (["sys/fs/cgroup/memory", "sys/fs/cgroup/memory,hugetlb"], "memory.limit_in_bytes")
            }
            _ => continue,
        };
        for mount in mounts {
            // Inside a container the path may be that of the machine, of which only the end can be seen.
            for group in Path::new(path.trim_start_matches('/')).ancestors() {
                let found = fs::read_to_string(root.join(mount).join(group).join(file));
                let limit = found.ok().and_then(|text| text.trim().parse::<usize>().ok());
                limits.extend(limit.filter(|&bytes| bytes < NO_LIMIT));
            }
        }
    }
    limits
}

/// The limit of what this process may map.
fn mapped_limit(root: &Path) -> Option<usize> {
    let text = fs::read_to_string(root.join("proc/self/limits")).ok()?;
    let soft = |name: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
        rest.split_whitespace().next()?.parse::<usize>().ok()
    };
    soft("Max address space").into_iter().chain(soft("Max data size")).min()
}

/// What is missing.
pub(super) struct Shortage {
    what: &'static str,
    taken: usize,
    granted: usize,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the process takes {} of {} bytes of {}", self.taken, self.granted, self.what)
    }
}

/// A share of this, and at most [`MAX_RESERVE`], is never given to values: for threads, messages, and whatever cannot be refused.
const RESERVE_SHARE: usize = 16;
const MAX_RESERVE: usize = 256 << 20;

/// Why the process, under an account with this limit, has no room for `bytes` more.
pub(super) fn shortage(bytes: usize, limit: usize) -> Option<Shortage> {
    let root = Path::new("/");
    let text = fs::read_to_string(root.join("proc/self/status")).ok()?;
    let bytes_of = |name: &str| kilobytes(&text, name).unwrap_or(0);
    let (mapped, resident) = (bytes_of("VmSize:"), bytes_of("RssAnon:"));
    let is_beyond = |taken: usize, granted: usize| {
        let reserve = (granted / RESERVE_SHARE).min(MAX_RESERVE);
        taken.saturating_add(bytes) > granted - reserve
    };
    if let Some(granted) = mapped_limit(root)
        && is_beyond(mapped, granted)
    {
        return Some(Shortage { what: "address space", taken: mapped, granted });
    }
    // What the account leaves free is for what it does not count; more than that is a sign that it counts too little.
    let granted = limit.saturating_add(limit / 4);
    is_beyond(resident, granted).then_some(Shortage { what: "memory", taken: resident, granted })
}

/// The bytes in the line of a table that begins with `name` and gives kilobytes.
fn kilobytes(table: &str, name: &str) -> Option<usize> {
    let rest = table.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse::<usize>().ok()?.checked_mul(1024)
}

/// Lets the C library reserve less address space, if that is limited: it reserves 64 MiB for each of its heaps, and makes eight
/// heaps for each core.
///
/// This is a setting of the whole process (`mallopt`), so it is for programs to call, at their start, and never called by a
/// library. The `tensorfleet` program does. It does nothing where the allocator is another one than glibc's.
pub fn save_address_space() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if mapped_limit(Path::new("/")).is_some() {
        use std::ffi::c_int;
        // From <malloc.h>.
        const M_ARENA_MAX: c_int = -8;
        /// Threads that allocate at the same time wait for each other a little; small blocks are kept by each thread.
        const HEAPS: c_int = 2;
        unsafe extern "C" {
            fn mallopt(parameter: c_int, value: c_int) -> c_int;
        }
        // SAFETY: the signature is that of <malloc.h>. It takes two numbers and no pointer, holds the allocator's own lock
        // while it changes its settings, and ignores what it does not understand.
        unsafe { mallopt(M_ARENA_MAX, HEAPS) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A system with these files.
    fn system(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    const MACHINE: (&str, &str) = ("proc/meminfo", "MemTotal:       16000000 kB\nMemFree: 1 kB\n");

    #[test]
    fn a_group_bounds_what_is_below_it() {
        let unlimited =
            system(&[MACHINE, ("proc/self/cgroup", "0::/a/b\n"), ("sys/fs/cgroup/a/b/memory.max", "max\n")]);
        assert_eq!(resident_limit(unlimited.path()), Some(16_000_000 << 10));
        let outer = system(&[
            MACHINE,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/memory.max", "2147483648\n"),
        ]);
        assert_eq!(resident_limit(outer.path()), Some(2 << 30));
    }

    #[test]
    fn a_container_sees_its_own_group_as_the_outermost() {
        let one = system(&[
            MACHINE,
            ("proc/self/cgroup", "12:cpu,cpuacct:/docker/4f\n5:memory:/docker/4f\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n"),
        ]);
        assert_eq!(resident_limit(one.path()), Some(1 << 30));
        let two =
            system(&[MACHINE, ("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.max", "1073741824\n")]);
        assert_eq!(resident_limit(two.path()), Some(1 << 30));
        let none = system(&[
            MACHINE,
            ("proc/self/cgroup", "5:memory:/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ]);
        assert_eq!(resident_limit(none.path()), Some(16_000_000 << 10));
    }

    #[test]
    fn the_soft_limit_of_address_space_counts() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max data size             unlimited            unlimited            bytes     \n\
                      Max address space         4000000000           unlimited            bytes     \n";
        assert_eq!(mapped_limit(system(&[("proc/self/limits", limits)]).path()), Some(4_000_000_000));
        let none = limits.replace("4000000000", "unlimited ");
        assert_eq!(mapped_limit(system(&[("proc/self/limits", &none)]).path()), None);
        assert_eq!(mapped_limit(Path::new("/nowhere")), None);
    }

    #[test]
    fn this_process_has_room_for_a_page_but_not_for_everything() {
        assert!(shortage(4096, 1 << 40).is_none());
        let shown = shortage(1 << 50, 1 << 40).unwrap().to_string();
        assert!(shown.contains("memory") || shown.contains("address space"), "{shown}");
    }
}
