//! The messages in `crates/tensorfleet-proto/generated` are those that `proto/` describes. They are checked in because whoever builds Tensorfleet
//! would otherwise first build a Protocol Buffers compiler; this test has one, and `cargo xtask proto` runs it to write.

use std::error::Error;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Set by `cargo xtask proto`: write what differs instead of failing.
const WRITE: &str = "TENSORFLEET_WRITE_PROTO";

#[test]
fn generated_messages_are_those_of_the_proto_files() -> Result<(), Box<dyn Error>> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let made = tempfile::tempdir()?;
    generate(&package.join("../proto"), made.path())?;
    let kept = package.join("../crates/tensorfleet-proto/generated");
    let (expected, found) = (names(made.path())?, names(&kept)?);
    if std::env::var_os(WRITE).is_some() {
        for name in &expected {
            std::fs::copy(made.path().join(name), kept.join(name))?;
        }
        return Ok(());
    }
    assert_eq!(found, expected, "`cargo xtask proto` writes the generated messages");
    for name in &expected {
        let same = std::fs::read(made.path().join(name))? == std::fs::read(kept.join(name))?;
        assert!(same, "{} is not what proto/ describes; `cargo xtask proto` writes it", name.display());
    }
    Ok(())
}

fn generate(root: &Path, into: &Path) -> Result<(), Box<dyn Error>> {
    let descriptors = protox::compile(proto_files(root)?, [root])?;
    let mut config = prost_build::Config::new();
    config
        .out_dir(into)
        // Tensor contents are shared with the receive buffer instead of copied out of it.
        .bytes(["."])
        // Encoding the same message twice gives the same bytes.
        .btree_map(["."])
        // A B-tree node has room for eleven attributes, so one with an inline tensor would take
        // kilobytes even for a node whose attributes are two types.
        .boxed(".tensorflow.AttrValue.value.tensor")
        .boxed(".tensorflow.AttrValue.value.list")
        // Our own `Any`, so that its payload is `Bytes` as well.
        .compile_well_known_types()
        .disable_comments([".google.protobuf"])
        // Peers unpack an `Any` only if its type URL has this prefix.
        .enable_type_names()
        .type_name_domain(["."], "type.googleapis.com");
    config.compile_fds(descriptors)?;
    Ok(())
}

/// Names relative to `root`, in a fixed order so that the same files give the same code.
fn proto_files(root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut files = Vec::new();
    for entry in root.join("tensorflow").read_dir()? {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new("proto")) {
            files.push(path.strip_prefix(root)?.to_string_lossy().replace('\\', "/"));
        }
    }
    files.sort();
    Ok(files)
}

fn names(directory: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut names = Vec::new();
    for entry in directory.read_dir()? {
        names.push(PathBuf::from(entry?.file_name()));
    }
    names.sort();
    Ok(names)
}
