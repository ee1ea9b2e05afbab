//! Ops that read formats of their own out of strings: images, examples, numbers, lines of text, patterns.
//!
//! The first byte of an input chooses one of a few graphs, the rest is fed. Graphs are made and planned once.

use std::cell::OnceCell;

use bytes::Bytes;
use tensorfleet_core::attr::IntoAttr;
use tensorfleet_core::{DType, PartialShape, Tensor};
use tensorfleet_proto::tensorflow::AttrValue;
use tensorfleet_runtime::{Callable, DirectSession};

use super::sandbox;
use crate::graph_builder::GraphBuilder;

type Attrs = Vec<(&'static str, AttrValue)>;

/// An op that is fed one string.
struct Reader {
    _session: DirectSession,
    callable: Callable,
}

impl Reader {
    /// A node of `op`, with the string as its first input and constants as the others.
    fn new(op: &str, shape: &[usize], constants: &[Tensor], attrs: Attrs) -> Reader {
        let mut graph = GraphBuilder::new().placeholder("fed", DType::String);
        let mut inputs = vec!["shaped".to_string()];
        let shape: Vec<i32> = shape.iter().map(|&size| size as i32).collect();
        graph = graph.constant("shape", Tensor::from_slice(&shape, &[shape.len()]).unwrap());
        let typed = [("T", DType::String.into()), ("Tshape", DType::Int32.into())];
        graph = graph.node("shaped", "Reshape", &["fed", "shape"], &typed);
        for (at, constant) in constants.iter().enumerate() {
            let name = format!("constant{at}");
            graph = graph.constant(&name, constant.clone());
            inputs.push(name);
        }
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        let attrs: Vec<_> = attrs.into_iter().map(|(name, value)| (name, value.into())).collect();
        let session = sandbox::session();
        session.extend(graph.node("node", op, &inputs, &attrs).build()).unwrap();
        let callable = session.make_callable(&["fed:0"], &["node:0"], &[]).unwrap();
        Reader { _session: session, callable }
    }

    fn run(&self, data: &[u8]) {
        let fed = Tensor::string(Bytes::copy_from_slice(data));
        // Value or error, both are answers.
        let _ = self.callable.run(vec![fed], &sandbox::run_options());
    }
}

/// Runs the reader that the first byte chooses on the rest.
fn choose(readers: &[Reader], data: &[u8]) {
    if let Some((&choice, rest)) = data.split_first() {
        readers[usize::from(choice) % readers.len()].run(rest);
    }
}

/// Images: PNG, JPEG and BMP files, and whatever `DecodeImage` takes them for.
pub fn image(data: &[u8]) {
    thread_local!(static READERS: OnceCell<Vec<Reader>> = const { OnceCell::new() });
    let int = |value: i64| value.into_attr();
    let make = || {
        vec![
            Reader::new("DecodePng", &[], &[], vec![("channels", int(0))]),
            Reader::new("DecodeJpeg", &[], &[], vec![("channels", int(0))]),
            Reader::new("DecodeBmp", &[], &[], vec![("channels", int(0))]),
            Reader::new("DecodeImage", &[], &[], vec![("channels", int(0))]),
            Reader::new(
                "DecodePng",
                &[],
                &[],
                vec![("channels", int(4)), ("dtype", DType::UInt16.into_attr())],
            ),
            Reader::new(
                "DecodeJpeg",
                &[],
                &[],
                vec![("channels", int(1)), ("try_recover_truncated", true.into_attr())],
            ),
            Reader::new("DecodeBmp", &[], &[], vec![("channels", int(3))]),
            Reader::new(
                "DecodeImage",
                &[],
                &[],
                vec![("channels", int(3)), ("dtype", DType::Float.into_attr())],
            ),
            Reader::new("DecodePng", &[], &[], vec![("channels", int(1))]),
        ]
    };
    READERS.with(|readers| choose(readers.get_or_init(make), data));
}

fn strings(values: &[&str]) -> Tensor {
    let values: Vec<Bytes> = values.iter().map(|value| Bytes::copy_from_slice(value.as_bytes())).collect();
    let count = values.len();
    Tensor::from_strings(values, &[count]).unwrap()
}

fn empty<T: tensorfleet_core::Element>() -> Tensor {
    Tensor::from_slice::<T>(&[], &[0]).unwrap()
}

/// `tf.Example` messages with the features `a` (floats), `b` (integers) and `c` (strings), as every parser reads them.
pub fn example(data: &[u8]) {
    thread_local!(static READERS: OnceCell<Vec<Reader>> = const { OnceCell::new() });
    let types = |types: &[DType]| types.to_vec().into_attr();
    let all = [DType::Float, DType::Int64, DType::String];
    let any_shape = || vec![PartialShape::new([Some(2)]), PartialShape::new([None])].into_attr();
    let make = || {
        let none = strings(&[]);
        let single = |keys: [&[&str]; 2], sparse: &[DType], dense: &[DType], defaults: &[Tensor]| {
            let names = |keys: &[&str]| {
                keys.iter().map(|key| Bytes::copy_from_slice(key.as_bytes())).collect::<Vec<_>>().into_attr()
            };
            let attrs = vec![
                ("num_sparse", (sparse.len() as i64).into_attr()),
                ("sparse_keys", names(keys[0])),
                ("dense_keys", names(keys[1])),
                ("sparse_types", types(sparse)),
                ("Tdense", types(dense)),
                ("dense_shapes", any_shape()),
            ];
            Reader::new("ParseSingleExample", &[], defaults, attrs)
        };
        let v2 = |ragged: &[&str], splits: &[DType], sparse: &[&str]| {
            let sparse_types = &all[..sparse.len()];
            let constants = [none.clone(), strings(sparse), none.clone(), strings(ragged)];
            let attrs = vec![
                ("Tdense", types(&[])),
                ("num_sparse", (sparse.len() as i64).into_attr()),
                ("sparse_types", types(sparse_types)),
                ("ragged_value_types", types(&all[..ragged.len()])),
                ("ragged_split_types", types(splits)),
                ("dense_shapes", Vec::<PartialShape>::new().into_attr()),
            ];
            Reader::new("ParseExampleV2", &[1], &constants, attrs)
        };
        let v1_dense = Reader::new(
            "ParseExample",
            &[1],
            &[
                none.clone(),
                Tensor::string("c"),
                Tensor::string("a"),
                Tensor::string("b"),
                empty::<f32>(),
                empty::<i64>(),
            ],
            vec![
                ("Nsparse", 1i64.into_attr()),
                ("Ndense", 2i64.into_attr()),
                ("sparse_types", types(&[DType::String])),
                ("Tdense", types(&[DType::Float, DType::Int64])),
                ("dense_shapes", any_shape()),
            ],
        );
        vec![
            v1_dense,
            v2(&[], &[], &["a", "b", "c"]),
            v2(&["a", "b", "c"], &[DType::Int64, DType::Int32, DType::Int64], &[]),
            single([&["c"], &["a", "b"]], &all[2..], &all[..2], &[empty::<f32>(), empty::<i64>()]),
        ]
    };
    READERS.with(|readers| choose(readers.get_or_init(make), data));
}

/// Text: lines of numbers and quoted fields, single numbers, base64, compressed and raw bytes, patterns and formats.
pub fn text(data: &[u8]) {
    thread_local!(static READERS: OnceCell<Vec<Reader>> = const { OnceCell::new() });
    let out = |dtype: DType| vec![("out_type", dtype.into_attr())];
    let make = || {
        let csv_types = [DType::Float, DType::Int32, DType::String, DType::Int64, DType::Double];
        let defaults = [
            empty::<f32>(),
            Tensor::from_slice(&[7i32], &[1]).unwrap(),
            strings(&["x"]),
            empty::<i64>(),
            empty::<f64>(),
        ];
        let csv = |quotes: bool, delimiter: &'static str| {
            let attrs = vec![
                ("OUT_TYPE", csv_types.to_vec().into_attr()),
                ("field_delim", delimiter.into_attr()),
                ("use_quote_delim", quotes.into_attr()),
                ("na_value", "NA".into_attr()),
            ];
            Reader::new("DecodeCSV", &[1], &defaults, attrs)
        };
        let text = |text: &'static str| Tensor::string(text);
        vec![
            csv(true, ","),
            csv(false, ";"),
            Reader::new("StringToNumber", &[1], &[], out(DType::Float)),
            Reader::new("StringToNumber", &[1], &[], out(DType::Double)),
            Reader::new("StringToNumber", &[1], &[], out(DType::Int32)),
            Reader::new("StringToNumber", &[1], &[], out(DType::Int64)),
            Reader::new("DecodeBase64", &[1], &[], Vec::new()),
            Reader::new("EncodeBase64", &[1], &[], vec![("pad", true.into_attr())]),
            Reader::new("DecodeRaw", &[1], &[], out(DType::Bool)),
            Reader::new(
                "DecodeRaw",
                &[1],
                &[],
                vec![("out_type", DType::Complex64.into_attr()), ("little_endian", false.into_attr())],
            ),
            Reader::new("StringSplitV2", &[1], &[text(" ")], Vec::new()),
            Reader::new("StringSplitV2", &[1], &[text("")], Vec::new()),
            Reader::new("RegexReplace", &[1], &[text("(a+)(b*)|c$"), text("<\\1\\2\\\\>")], Vec::new()),
            Reader::new("RegexFullMatch", &[1], &[text("([a-z]*[0-9])+x?")], Vec::new()),
            Reader::new("StringStrip", &[1], &[], Vec::new()),
            Reader::new("StringLength", &[1], &[], vec![("unit", "UTF8_CHAR".into_attr())]),
        ]
    };
    READERS.with(|readers| choose(readers.get_or_init(make), data));
}
