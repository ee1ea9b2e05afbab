//! The messages in `crates/tensorfleet-proto/generated` are those that `proto/tensorflow` describes. They are checked in because whoever builds Tensorfleet
//! would otherwise first build a Protocol Buffers compiler; this test has one, and `cargo xtask proto` runs it to write. The Python package makes its
//! message classes from a table, `python/tensorfleet/protobuf/_descriptors.py`, which is written here too; it also has the messages of `proto/python`,
//! which only Python programs use.

use std::error::Error;
use std::ffi::OsStr;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use protox::prost_reflect::{DescriptorPool, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};

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

#[test]
fn table_of_python_messages_is_that_of_the_proto_files() -> Result<(), Box<dyn Error>> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = python_table(&package.join("../proto"))?;
    let kept = package.join("../python/tensorfleet/protobuf/_descriptors.py");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(kept, table)?;
        return Ok(());
    }
    let same = std::fs::read_to_string(&kept)? == table;
    assert!(same, "{} is not what proto/ describes; `cargo xtask proto` writes it", kept.display());
    Ok(())
}

fn generate(root: &Path, into: &Path) -> Result<(), Box<dyn Error>> {
    let descriptors = protox::compile(proto_files(root, "tensorflow")?, [root])?;
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
fn proto_files(root: &Path, folder: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let mut files = Vec::new();
    for entry in root.join(folder).read_dir()? {
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

const PYTHON_HEAD: &str = r#""""The messages of proto/, written by `cargo xtask proto`; never edited by hand.

A message is its fields, each `number name type`: a type is a scalar's name, `.name` of a message or `=name` of an enumeration, with `*` before
it if it is repeated, `{key,value}` if it is a map, `?` after it if unset differs from its default, and `@name` if it belongs to that oneof.
"""

"#;

/// Rust keeps these as bytes, because it never looks inside; Python has the messages.
const PYTHON_TYPES: &[(&str, &str)] = &[
    ("tensorflow.MetaGraphDef.object_graph_def", ".tensorflow.SavedObjectGraph"),
    ("tensorflow.TensorInfo.CompositeTensor.type_spec", ".tensorflow.TypeSpecProto"),
];

/// One string for each message, so that importing the table costs next to nothing; Python makes a class of it when a program first names it.
fn python_table(root: &Path) -> Result<String, Box<dyn Error>> {
    let mut files = proto_files(root, "tensorflow")?;
    files.extend(proto_files(root, "python")?);
    let mut compiler = protox::Compiler::new([root])?;
    let pool: DescriptorPool = compiler.include_imports(true).open_files(files)?.descriptor_pool();
    let mut messages: Vec<MessageDescriptor> =
        pool.all_messages().filter(|message| !message.is_map_entry()).collect();
    messages.sort_by(|one, other| one.full_name().cmp(other.full_name()));
    let mut enumerations: Vec<EnumDescriptor> = pool.all_enums().collect();
    enumerations.sort_by(|one, other| one.full_name().cmp(other.full_name()));
    let mut text = String::from(PYTHON_HEAD);
    text.push_str("MESSAGES = {\n");
    for message in messages {
        let fields: Vec<String> = message.fields().map(|field| python_field(&field)).collect();
        writeln!(text, "    \"{}\": \"{}\",", message.full_name(), fields.join(";"))?;
    }
    text.push_str("}\n\nENUMS = {\n");
    for enumeration in enumerations {
        let values: Vec<String> =
            enumeration.values().map(|value| format!("{} {}", value.name(), value.number())).collect();
        writeln!(text, "    \"{}\": \"{}\",", enumeration.full_name(), values.join(";"))?;
    }
    text.push_str("}\n");
    Ok(text)
}

fn python_field(field: &FieldDescriptor) -> String {
    if let Some((_, kind)) = PYTHON_TYPES.iter().find(|(name, _)| *name == field.full_name()) {
        return format!("{} {} {kind}", field.number(), field.name());
    }
    let kind = match field.kind() {
        Kind::Message(entry) if entry.is_map_entry() => {
            let (key, value) = (entry.map_entry_key_field(), entry.map_entry_value_field());
            format!("{{{},{}}}", python_kind(&key.kind()), python_kind(&value.kind()))
        }
        kind if field.is_list() => format!("*{}", python_kind(&kind)),
        kind => python_kind(&kind),
    };
    let member = match field.containing_oneof() {
        Some(oneof) if oneof.is_synthetic() => "?".to_owned(),
        Some(oneof) => format!("@{}", oneof.name()),
        None => String::new(),
    };
    format!("{} {} {kind}{member}", field.number(), field.name())
}

fn python_kind(kind: &Kind) -> String {
    match kind {
        Kind::Message(message) => format!(".{}", message.full_name()),
        Kind::Enum(enumeration) => format!("={}", enumeration.full_name()),
        scalar => format!("{scalar:?}"),
    }
}
