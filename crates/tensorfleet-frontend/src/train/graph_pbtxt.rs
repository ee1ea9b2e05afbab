//! Writes a graph in protocol buffers' text form, for people and for TensorFlow's tools: `graph.pbtxt`.

use std::fmt::{Display, Write};
use std::path::Path;

use tensorfleet_core::{Result, Status};
use tensorfleet_files::{AtomicFile, FileAccess, io_status};
use tensorfleet_proto::tensorflow::attr_value::{ListValue, Value};
use tensorfleet_proto::tensorflow::op_def::{ArgDef, AttrDef};
use tensorfleet_proto::tensorflow::{
    AttrValue, DataType, FunctionDef, FunctionDefLibrary, GraphDef, NameAttrList, NodeDef, OpDef,
    TensorProto, TensorShapeProto,
};

use crate::graph::Graph;
use crate::summary::with_shapes;

/// Writes the graph to `dir/name` as text, and returns the path. A reader finds the old file or the new one, never a half. Left
/// out is what only debuggers and compilers of TensorFlow 2 read: stack traces and experimental types.
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
    let failed = |status: Status| status.context("the graph could not be written");
    std::fs::create_dir_all(dir).map_err(|error| failed(io_status(Path::new(dir), &error)))?;
    let mut file = AtomicFile::create(&FileAccess::EVERYWHERE, &path).map_err(failed)?;
    file.write(graph_text(&with_shapes(graph)).as_bytes()).map_err(failed)?;
    file.commit().map_err(failed)?;
    Ok(path.display().to_string())
}

fn graph_text(graph: &GraphDef) -> String {
    let mut text = Text::default();
    for node in &graph.node {
        text.message("node", |text| text.node(node));
    }
    if let Some(library) = &graph.library {
        text.message("library", |text| text.library(library));
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

    /// Left out if it is empty.
    fn string(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.bytes(name, value.as_bytes());
        }
    }

    /// Left out if it is false.
    fn flag(&mut self, name: &str, value: bool) {
        if value {
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
        self.string("device", &node.device);
        self.attrs(node.attr.iter());
    }

    fn library(&mut self, library: &FunctionDefLibrary) {
        for function in &library.function {
            self.message("function", |text| text.function(function));
        }
        for gradient in &library.gradient {
            self.message("gradient", |text| {
                text.string("function_name", &gradient.function_name);
                text.string("gradient_func", &gradient.gradient_func);
            });
        }
        for gradient in &library.registered_gradients {
            self.message("registered_gradients", |text| {
                text.string("gradient_func", &gradient.gradient_func);
                text.string("registered_op_type", &gradient.registered_op_type);
            });
        }
    }

    fn function(&mut self, function: &FunctionDef) {
        if let Some(signature) = &function.signature {
            self.message("signature", |text| text.signature(signature));
        }
        for node in &function.node_def {
            self.message("node_def", |text| text.node(node));
        }
        self.strings("ret", function.ret.iter());
        self.attrs(function.attr.iter());
        self.strings("control_ret", function.control_ret.iter());
        for (argument, attrs) in in_order(function.arg_attr.iter()) {
            self.message("arg_attr", |text| {
                text.field("key", argument);
                text.message("value", |text| text.attrs(attrs.attr.iter()));
            });
        }
        for (argument, id) in in_order(function.resource_arg_unique_id.iter()) {
            self.message("resource_arg_unique_id", |text| {
                text.field("key", argument);
                text.field("value", id);
            });
        }
    }

    fn signature(&mut self, op: &OpDef) {
        self.string("name", &op.name);
        op.input_arg.iter().for_each(|arg| self.message("input_arg", |text| text.arg(arg)));
        op.output_arg.iter().for_each(|arg| self.message("output_arg", |text| text.arg(arg)));
        op.attr.iter().for_each(|attr| self.message("attr", |text| text.attr_def(attr)));
        self.string("summary", &op.summary);
        self.string("description", &op.description);
        self.flag("is_aggregate", op.is_aggregate);
        self.flag("is_stateful", op.is_stateful);
        self.flag("is_commutative", op.is_commutative);
        self.flag("allows_uninitialized_input", op.allows_uninitialized_input);
        op.control_output.iter().for_each(|name| self.bytes("control_output", name.as_bytes()));
        self.flag("is_distributed_communication", op.is_distributed_communication);
    }

    fn arg(&mut self, arg: &ArgDef) {
        self.string("name", &arg.name);
        self.string("description", &arg.description);
        if arg.r#type != DataType::DtInvalid as i32 {
            self.dtype("type", arg.r#type);
        }
        self.string("type_attr", &arg.type_attr);
        self.string("number_attr", &arg.number_attr);
        self.string("type_list_attr", &arg.type_list_attr);
        for data in &arg.handle_data {
            self.message("handle_data", |text| {
                text.dtype("dtype", data.dtype);
                if let Some(shape) = &data.shape {
                    text.message("shape", |text| text.shape(shape));
                }
            });
        }
        self.flag("is_ref", arg.is_ref);
    }

    fn attr_def(&mut self, attr: &AttrDef) {
        self.string("name", &attr.name);
        self.string("type", &attr.r#type);
        if let Some(value) = &attr.default_value {
            self.message("default_value", |text| text.attr(value));
        }
        self.string("description", &attr.description);
        self.flag("has_minimum", attr.has_minimum);
        self.number("minimum", attr.minimum);
        if let Some(values) = &attr.allowed_values {
            self.message("allowed_values", |text| text.attr(values));
        }
    }

    fn strings<'a>(&mut self, name: &str, map: impl Iterator<Item = (&'a String, &'a String)>) {
        for (key, value) in in_order(map) {
            self.message(name, |text| {
                text.bytes("key", key.as_bytes());
                text.bytes("value", value.as_bytes());
            });
        }
    }

    fn attrs<'a>(&mut self, attrs: impl Iterator<Item = (&'a String, &'a AttrValue)>) {
        for (name, value) in in_order(attrs) {
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
                text.string("name", &dim.name);
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

/// The entries of a map by their keys, so that equal graphs have equal texts.
fn in_order<K: Ord + Copy, V>(entries: impl Iterator<Item = (K, V)>) -> Vec<(K, V)> {
    let mut entries: Vec<(K, V)> = entries.collect();
    entries.sort_by_key(|(key, _)| *key);
    entries
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

    #[test]
    fn functions_are_written_with_their_signature_body_and_results() {
        let arg =
            |name: &str| ArgDef { name: name.into(), r#type: DataType::DtFloat as i32, ..Default::default() };
        let signature = OpDef {
            name: "double".into(),
            input_arg: vec![arg("x")],
            output_arg: vec![arg("y")],
            is_stateful: true,
            ..Default::default()
        };
        let add = NodeDef {
            name: "sum".into(),
            op: "AddV2".into(),
            input: vec!["x".into(); 2],
            ..Default::default()
        };
        let function = FunctionDef {
            signature: Some(signature),
            node_def: vec![add],
            ret: [("y".to_string(), "sum:z:0".to_string())].into(),
            ..Default::default()
        };
        let library = FunctionDefLibrary { function: vec![function], ..Default::default() };
        let expected = r#"library {
  function {
    signature {
      name: "double"
      input_arg {
        name: "x"
        type: DT_FLOAT
      }
      output_arg {
        name: "y"
        type: DT_FLOAT
      }
      is_stateful: true
    }
    node_def {
      name: "sum"
      op: "AddV2"
      input: "x"
      input: "x"
    }
    ret {
      key: "y"
      value: "sum:z:0"
    }
  }
}
"#;
        assert_eq!(graph_text(&GraphDef { library: Some(library), ..Default::default() }), expected);
    }
}
