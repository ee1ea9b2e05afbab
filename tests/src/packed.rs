//! The cases and graphs that belong to the repository, packed under `tests/data`.
//!
//! `vectors.tar.gz` and `more_vectors.tar.gz` hold the case directories (the second those that `python/more_vectors.py` and
//! `python/more_vectors_state.py` make), `graphs.tar.gz` the graphs of the seed programs and
//! `inventory.json.gz` the list of ops. `cargo xtask pack-vectors DIR` makes them from a directory of loose files, or `more_vectors` alone;
//! names are sorted and times are zero, so that the same files always give the same archive.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};
use tensorfleet_core::{Result, Status};

use crate::case::{Case, CaseFiles};

/// The archives, and the sources they are packed from.
const VECTORS: &str = "vectors.tar.gz";
const MORE_VECTORS: &str = "more_vectors.tar.gz";
const GRAPHS: &str = "graphs.tar.gz";
const INVENTORY: &str = "inventory.json.gz";

/// The directory with the packed files.
pub fn data_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data")
}

/// All packed cases, by name.
pub fn cases() -> Result<Vec<Case>> {
    let mut directories: BTreeMap<String, CaseFiles> = BTreeMap::new();
    for archive in [VECTORS, MORE_VECTORS] {
        for (path, content) in unpack(&data_directory().join(archive))? {
            let (directory, file) = path.rsplit_once('/').unwrap_or(("", &path));
            directories.entry(directory.to_string()).or_default().insert(file.to_string(), content);
        }
    }
    directories
        .into_iter()
        .map(|(name, files)| Case::parse(files).map_err(|status| status.context(name)))
        .collect()
}

/// The files of the packed graphs (`NAME.pb`, and `NAME.placement.json` for some), by name.
pub fn graphs() -> Result<BTreeMap<String, Bytes>> {
    unpack(&data_directory().join(GRAPHS))
}

/// The list of ops that programs use, as JSON.
pub fn inventory() -> Result<serde_json::Value> {
    let path = data_directory().join(INVENTORY);
    let read = || -> io::Result<serde_json::Value> {
        Ok(serde_json::from_reader(GzDecoder::new(std::fs::File::open(&path)?))?)
    };
    read().map_err(|error| unreadable(&path, &error))
}

/// Packs `source/more_vectors`, if there is such a directory, into `destination`; else `source/vectors`, `source/graphs` and
/// `source/inventory.json`.
pub fn pack(source: &Path, destination: &Path) -> io::Result<()> {
    let more = source.join("more_vectors");
    if more.is_dir() {
        return pack_directory(&more, &destination.join(MORE_VECTORS));
    }
    pack_directory(&source.join("vectors"), &destination.join(VECTORS))?;
    pack_directory(&source.join("graphs"), &destination.join(GRAPHS))?;
    let inventory: serde_json::Value =
        serde_json::from_slice(&std::fs::read(source.join("inventory.json"))?)?;
    let mut encoder = encoder(&destination.join(INVENTORY))?;
    serde_json::to_writer(&mut encoder, &inventory)?;
    encoder.finish()?.sync_all()
}

fn encoder(path: &Path) -> io::Result<GzEncoder<std::fs::File>> {
    Ok(GzBuilder::new().mtime(0).write(std::fs::File::create(path)?, Compression::best()))
}

/// Packs all files below `root`.
pub(crate) fn pack_directory(root: &Path, archive: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    let mut pending = vec![root.to_path_buf()];
    while let Some(directory) = pending.pop() {
        for entry in directory.read_dir()? {
            let path = entry?.path();
            if path.is_dir() { pending.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    let mut builder = tar::Builder::new(encoder(archive)?);
    for path in files {
        let content = std::fs::read(&path)?;
        let name = path.strip_prefix(root).map_err(io::Error::other)?;
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        builder.append_data(&mut header, name, &content[..])?;
    }
    let mut encoder = builder.into_inner()?;
    encoder.flush()?;
    encoder.finish()?.sync_all()
}

/// The files of an archive, by path.
pub(crate) fn unpack(archive: &Path) -> Result<BTreeMap<String, Bytes>> {
    let read = || -> io::Result<BTreeMap<String, Bytes>> {
        let mut files = BTreeMap::new();
        let mut tar = tar::Archive::new(GzDecoder::new(std::fs::File::open(archive)?));
        for entry in tar.entries()? {
            let mut entry = entry?;
            let name = entry.path()?.to_string_lossy().into_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content)?;
            files.insert(name, content.into());
        }
        Ok(files)
    };
    read().map_err(|error| unreadable(archive, &error))
}

fn unreadable(path: &Path, error: &io::Error) -> Status {
    Status::not_found(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_is_deterministic_and_unpacks_to_the_same_files() {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("source");
        std::fs::create_dir_all(source.join("vectors/f/c")).unwrap();
        std::fs::create_dir_all(source.join("graphs")).unwrap();
        std::fs::write(source.join("vectors/f/c/b"), b"second").unwrap();
        std::fs::write(source.join("vectors/f/c/a"), b"first").unwrap();
        std::fs::write(source.join("graphs/g.pb"), b"graph").unwrap();
        std::fs::write(source.join("inventory.json"), b"{\"ops\": []}").unwrap();
        let pack_to = |name: &str| {
            let destination = directory.path().join(name);
            std::fs::create_dir(&destination).unwrap();
            pack(&source, &destination).unwrap();
            destination
        };
        let (one, two) = (pack_to("one"), pack_to("two"));
        for archive in [VECTORS, GRAPHS, INVENTORY] {
            assert_eq!(std::fs::read(one.join(archive)).unwrap(), std::fs::read(two.join(archive)).unwrap());
        }
        let files = unpack(&one.join(VECTORS)).unwrap();
        assert_eq!(files.keys().collect::<Vec<_>>(), ["f/c/a", "f/c/b"]);
        assert_eq!(&files["f/c/b"][..], b"second");
    }
}
