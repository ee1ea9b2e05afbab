//! The inputs that are kept: for each target an archive of those that reach something, and the ones that once failed.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tensorfleet_core::{Result, Status};

use crate::packed;

/// The directory of the fuzzers.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}

/// The inputs kept for a target, by name; none if nothing is kept yet.
pub fn inputs(target: &str) -> Result<BTreeMap<String, Bytes>> {
    let archive = archive(target);
    if archive.exists() { packed::unpack(&archive) } else { Ok(BTreeMap::new()) }
}

/// The inputs with which a target once failed, by name.
pub fn crashes(target: &str) -> Result<BTreeMap<String, Bytes>> {
    let directory = directory().join("crashes").join(target);
    let read = || -> io::Result<BTreeMap<String, Bytes>> {
        let mut files = BTreeMap::new();
        for entry in directory.read_dir()? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            files.insert(name, std::fs::read(entry.path())?.into());
        }
        Ok(files)
    };
    match read() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        files => files.map_err(|error| Status::internal(format!("{}: {error}", directory.display()))),
    }
}

/// Packs the files of `source` as the inputs of a target.
pub fn pack(target: &str, source: &Path) -> io::Result<()> {
    let archive = archive(target);
    std::fs::create_dir_all(archive.parent().unwrap_or(&archive))?;
    packed::pack_directory(source, &archive)
}

/// Writes the inputs of a target, its seeds among them, into `destination`.
pub fn unpack(target: &str, destination: &Path) -> Result<()> {
    let failed = |error: io::Error| Status::internal(format!("{}: {error}", destination.display()));
    std::fs::create_dir_all(destination).map_err(failed)?;
    let seeds = super::seeds::seeds(target)?.into_iter().enumerate();
    let seeds = seeds.map(|(at, seed)| (format!("seed-{at:04}"), Bytes::from(seed)));
    for (name, input) in seeds.chain(inputs(target)?).chain(crashes(target)?) {
        std::fs::write(destination.join(name), input).map_err(failed)?;
    }
    Ok(())
}

fn archive(target: &str) -> PathBuf {
    directory().join("corpus").join(format!("{target}.tar.gz"))
}
