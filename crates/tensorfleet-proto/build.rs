//! Compiles every file under `proto/tensorflow` to Rust, without a `protoc` on the machine.

use std::error::Error;
use std::ffi::OsStr;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    println!("cargo:rerun-if-changed={}", root.display());

    let descriptors = protox::compile(proto_files(&root)?, [&root])?;

    let mut config = prost_build::Config::new();
    config
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

/// Names relative to `root`, in a fixed order so that builds are reproducible.
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
