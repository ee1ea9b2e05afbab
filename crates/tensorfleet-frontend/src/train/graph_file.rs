//! Writes a graph in protocol buffers' text form, for people and for TensorFlow's tools: `graph.pbtxt`.

use std::fmt::{Display, Write};
use std::path::Path;

use tensorfleet_core::{Result, Status};
use tensorfleet_proto::tensorflow::attr_value::{ListValue, Value};
use tensorfleet_proto::tensorflow::{
    AttrValue, DataType, GraphDef, NameAttrList, NodeDef, TensorProto, TensorShapeProto,
};

use crate::graph::Graph;

/// Writes the graph to `dir/name` as text, and returns the path. Functions of an imported graph are left out, which a comment
/// in the file says.
///
/// ```
/// # use tensorfleet::Graph;
/// # use tensorfleet::train::write_graph;
/// # let directory = tempfile::tempdir().unwrap();
/// # let dir = directory.path().to_str().unwrap();
/// let g = Graph::new();
/// g.constant_named("answer", 42);
/// let path = write_graph(&g, dir, "graph.pbtxt")?;
/// assert!(std::fs::read_to_string(path).unwrap().starts_with("node {\n  name: \"answer\"\n  op: \"Const\"\n"));
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub fn write_graph(graph: &Graph, dir: &str, name: &str) -> Result<String> {
    let path = Path::new(dir).join(name);
    let text = graph_text(&crate::summary::with_shapes(graph));
    let failed = |error: std::io::Error| {
        Status::new(code_of(&error), format!("the graph could not be written to {}: {error}", path.display()))
    };
    std::fs::create_dir_all(dir).map_err(failed)?;
    // A reader sees the old file or the new one, never a half.
    let unfinished = Path::new(dir).join(format!("{name}.tmp{}", std::process::id()));
    std::fs::write(&unfinished, text).and_then(|()| std::fs::rename(&unfinished, &path)).map_err(
        |error| {
            let _ = std::fs::remove_file(&unfinished);
            failed(error)
        },
    )?;
    Ok(path.display().to_string())
}

fn code_of(error: &std::io::Error) -> tensorfleet_core::Code {
    use tensorfleet_core::Code;
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Code::ResourceExhausted,
        std::io::ErrorKind::PermissionDenied => Code::PermissionDenied,
        std::io::ErrorKind::NotFound => Code::NotFound,
        _ => Code::Unknown,
    }
}

fn graph_text(graph: &GraphDef) -> String {
    let mut text = Text::default();
    for node in &graph.node {
        text.message("node", |text| text.node(node));
    }
    let functions = graph.library.as_ref().map_or(0, |library| library.function.len());
    if functions > 0 {
        text.line(format_args!("# {functions} functions are left out"));
    }
    if let Some(versions) = &graph.versions {
        text.message("versions", |text| {
            text.number("producer", versions.producer.into());
            text.number("min_consumer", versions.min_consumer.into());
            versions.bad_consumers.iter().for_each(|bad| text.field("bad_consumers", bad));
        });
    }
    text.out
}

#[derive(Default)]
struct Text {
    out: String,
    depth: usize,
}

impl Text {
    fn line(&mut self, line: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.out, "{:width$}{line}", "", width = 2 * self.depth);
    }

    fn field(&mut self, name: &str, value: impl Display) {
        self.line(format_args!("{name}: {value}"));
    }

    /// As the text form has it, numbers that are 0 are left out.
    fn number(&mut self, name: &str, value: i64) {
        if value != 0 {
            self.field(name, value);
        }
    }

    fn bytes(&mut self, name: &str, value: &[u8]) {
        self.field(name, format_args!("\"{}\"", escaped(value)));
    }

    fn dtype(&mut self, name: &str, value: i32) {
        match DataType::try_from(value) {
            Ok(dtype) => self.field(name, dtype.as_str_name()),
            Err(_) => self.field(name, value),
        }
    }

    fn message(&mut self, name: &str, body: impl FnOnce(&mut Text)) {
        self.line(format_args!("{name} {{"));
        self.depth += 1;
        body(self);
        self.depth -= 1;
        self.line("}");
    }

    fn node(&mut self, node: &NodeDef) {
        self.bytes("name", node.name.as_bytes());
        self.bytes("op", node.op.as_bytes());
        node.input.iter().for_each(|input| self.bytes("input", input.as_bytes()));
        if !node.device.is_empty() {
            self.bytes("device", node.device.as_bytes());
        }
        self.attrs(node.attr.iter());
    }

    fn attrs<'a>(&mut self, attrs: impl Iterator<Item = (&'a String, &'a AttrValue)>) {
        let mut attrs: Vec<_> = attrs.collect();
        attrs.sort_by_key(|(name, _)| *name);
        for (name, value) in attrs {
            self.message("attr", |text| {
                text.bytes("key", name.as_bytes());
                text.message("value", |text| text.attr(value));
            });
        }
    }

    fn attr(&mut self, attr: &AttrValue) {
        match &attr.value {
            None => {}
            Some(Value::S(value)) => self.bytes("s", value),
            Some(Value::I(value)) => self.field("i", value),
            Some(Value::F(value)) => self.field("f", real(f64::from(*value), value)),
            Some(Value::B(value)) => self.field("b", value),
            Some(Value::Type(value)) => self.dtype("type", *value),
            Some(Value::Shape(value)) => self.message("shape", |text| text.shape(value)),
            Some(Value::Tensor(value)) => self.message("tensor", |text| text.tensor(value)),
            Some(Value::List(value)) => self.message("list", |text| text.list(value)),
            Some(Value::Placeholder(value)) => self.bytes("placeholder", value.as_bytes()),
            Some(Value::Func(value)) => self.message("func", |text| text.func(value)),
        }
    }

    fn list(&mut self, list: &ListValue) {
        list.s.iter().for_each(|value| self.bytes("s", value));
        list.i.iter().for_each(|value| self.field("i", value));
        list.f.iter().for_each(|value| self.field("f", real(f64::from(*value), value)));
        list.b.iter().for_each(|value| self.field("b", value));
        list.r#type.iter().for_each(|&value| self.dtype("type", value));
        list.shape.iter().for_each(|value| self.message("shape", |text| text.shape(value)));
        list.tensor.iter().for_each(|value| self.message("tensor", |text| text.tensor(value)));
        list.func.iter().for_each(|value| self.message("func", |text| text.func(value)));
    }

    fn func(&mut self, func: &NameAttrList) {
        self.bytes("name", func.name.as_bytes());
        self.attrs(func.attr.iter());
    }

    fn shape(&mut self, shape: &TensorShapeProto) {
        for dim in &shape.dim {
            self.message("dim", |text| {
                text.number("size", dim.size);
                if !dim.name.is_empty() {
                    text.bytes("name", dim.name.as_bytes());
                }
            });
        }
        if shape.unknown_rank {
            self.field("unknown_rank", true);
        }
    }

    fn tensor(&mut self, tensor: &TensorProto) {
        self.dtype("dtype", tensor.dtype);
        if let Some(shape) = &tensor.tensor_shape {
            self.message("tensor_shape", |text| text.shape(shape));
        }
        self.number("version_number", tensor.version_number.into());
        if !tensor.tensor_content.is_empty() {
            self.bytes("tensor_content", &tensor.tensor_content);
        }
        tensor.half_val.iter().for_each(|value| self.field("half_val", value));
        tensor.float_val.iter().for_each(|value| self.field("float_val", real(f64::from(*value), value)));
        tensor.double_val.iter().for_each(|value| self.field("double_val", real(*value, value)));
        tensor.int_val.iter().for_each(|value| self.field("int_val", value));
        tensor.string_val.iter().for_each(|value| self.bytes("string_val", value));
        tensor
            .scomplex_val
            .iter()
            .for_each(|value| self.field("scomplex_val", real(f64::from(*value), value)));
        tensor.int64_val.iter().for_each(|value| self.field("int64_val", value));
        tensor.bool_val.iter().for_each(|value| self.field("bool_val", value));
        tensor.dcomplex_val.iter().for_each(|value| self.field("dcomplex_val", real(*value, value)));
        tensor.uint32_val.iter().for_each(|value| self.field("uint32_val", value));
        tensor.uint64_val.iter().for_each(|value| self.field("uint64_val", value));
    }
}

/// A number in the shortest form that reads back as the same.
fn real(value: f64, shortest: impl Display) -> String {
    match value {
        value if value.is_nan() => "nan".to_string(),
        value if value.is_infinite() => if value > 0.0 { "inf" } else { "-inf" }.to_string(),
        _ => shortest.to_string(),
    }
}

/// Bytes inside quotes, in ASCII.
fn escaped(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b'"' | b'\'' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            0x20..=0x7e => out.push(char::from(byte)),
            _ => {
                // Three octal digits, so that a digit that follows stays apart.
                let _ = write!(out, "\\{byte:03o}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_apart_from_the_digits_after_them() {
        assert_eq!(escaped(b"a\x001\"\xff\n"), "a\\0001\\\"\\377\\n");
    }

    #[test]
    fn attributes_stand_in_the_order_of_their_names() {
        let g = Graph::new();
        g.constant([1.5f32, f32::INFINITY]);
        let text = graph_text(&g.to_graph_def());
        let (dtype, value) = (text.find("\"dtype\"").unwrap(), text.find("\"value\"").unwrap());
        assert!(dtype < value, "{text}");
        assert!(text.contains("type: DT_FLOAT"), "{text}");
        assert!(
            text.contains("      tensor {\n        dtype: DT_FLOAT\n        tensor_shape {\n          dim {"),
            "{text}"
        );
    }
}
