//! Who listens on a port: asked when binding fails, so that the error can name the process.

use std::fs;
use std::path::Path;

/// The id and name of a process that listens on `port`, if `/proc` tells.
pub(crate) fn find(port: u16) -> Option<(u32, String)> {
    let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| listening_inodes(&table, port))
        .collect();
    if inodes.is_empty() {
        return None;
    }
    let processes = fs::read_dir("/proc").ok()?.flatten();
    for process in processes {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if has_socket(&process.path(), &inodes) {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            return Some((pid, name.trim().to_string()));
        }
    }
    None
}

/// Inodes of the listening sockets of a port in the kernel's table: the second column is the local address, the fourth
/// the state (0A is listening), the tenth the inode.
fn listening_inodes(table: &str, port: u16) -> Vec<String> {
    let suffix = format!(":{port:04X}");
    let columns = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    columns
        .filter(|row| row.get(1).is_some_and(|local| local.ends_with(&suffix)) && row.get(3) == Some(&"0A"))
        .filter_map(|row| row.get(9).map(|inode| inode.to_string()))
        .collect()
}

fn has_socket(process: &Path, inodes: &[String]) -> bool {
    let Ok(files) = fs::read_dir(process.join("fd")) else { return false };
    files.flatten().filter_map(|file| fs::read_link(file.path()).ok()).any(|target| {
        let target = target.to_string_lossy();
        let inode = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
        inode.is_some_and(|inode| inodes.iter().any(|known| known == inode))
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_listening_process_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(find(port).unwrap().0, std::process::id());
        drop(listener);
        assert_eq!(find(port), None);
    }
}
