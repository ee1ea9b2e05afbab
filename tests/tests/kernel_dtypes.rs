//! Every dtype that a CPU kernel of TensorFlow takes has a kernel here, for every op of the catalogue.
//!
//! `data/kernel_dtypes.txt.gz` lists TensorFlow's kernels; `python/kernel_dtypes.py` makes it.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::GzDecoder;
use tensorfleet_core::attr::IntoAttr;
use tensorfleet_core::{DType, Endpoint, Node, NodeId, PartialShape, Result};
use tensorfleet_kernel::NodeSpec;
use tensorfleet_kernel::signature::{Arg, ArgTypes, AttrDecl, AttrKind, Signature};
use tensorfleet_ops::catalogue;
use tensorfleet_proto::tensorflow::AttrValue;
use tensorfleet_tests::packed;

/// Kernels of TensorFlow that are missing on purpose: the start of a line, and why.
const MISSING: &[(&str, &str)] = &[
    ("ClipByValue T", "complex numbers have no order; TensorFlow clips their parts"),
    ("ComplexAbs T", "made here with an output type that does not fit"),
    ("EuclideanNorm T=", "integers: TensorFlow rounds on the way"),
    ("MatrixInverse T", "half: two digits of an inverse are of no use"),
    ("_FusedConv2D T", "int8: made by TensorFlow's own rewriting only"),
];

/// A value that makes sense for most ops.
fn filler(decl: &AttrDecl) -> Option<AttrValue> {
    let number = decl.minimum.unwrap_or(1).max(1);
    let dtype = |allowed: &Option<Vec<DType>>| match allowed {
        Some(allowed) if !allowed.contains(&DType::Float) => allowed[0],
        _ => DType::Float,
    };
    let text = |allowed: &Option<Vec<String>>| allowed.as_ref().map_or("x".to_string(), |all| all[0].clone());
    Some(match (&decl.kind, decl.is_list) {
        (AttrKind::Int, false) => number.into_attr(),
        (AttrKind::Int, true) => vec![1i64; 4].into_attr(),
        (AttrKind::Float, false) => 1.0f32.into_attr(),
        (AttrKind::Float, true) => vec![0.5f32].into_attr(),
        (AttrKind::Bool, false) => false.into_attr(),
        (AttrKind::Type(allowed), false) => dtype(allowed).into_attr(),
        (AttrKind::Type(allowed), true) => vec![dtype(allowed); number as usize].into_attr(),
        (AttrKind::String(allowed), false) => text(allowed).into_attr(),
        (AttrKind::Shape, false) => PartialShape::unknown().into_attr(),
        _ => return None,
    })
}

fn edges(args: &[Arg], attrs: &BTreeMap<String, AttrValue>, signature: &Signature) -> usize {
    let value = |name: &str| attrs.get(name).or_else(|| signature.attr(name)?.default.as_ref());
    let count = |arg: &Arg| match &arg.types {
        ArgTypes::Fixed(_) | ArgTypes::Attr(_) => 1,
        ArgTypes::Repeated(name, _) => value(name).map_or(0, |value| {
            <i64 as tensorfleet_core::attr::FromAttr>::from_attr(value).unwrap_or(0) as usize
        }),
        ArgTypes::List(name) => value(name).map_or(0, |value| {
            <Vec<DType> as tensorfleet_core::attr::FromAttr>::from_attr(value).map_or(0, |types| types.len())
        }),
    };
    args.iter().map(count).sum()
}

/// Makes the kernel of one node; `None` if nobody knows how to fill in its attributes.
fn make_kernel(op: &str, types: &[(&str, DType)]) -> Option<Result<()>> {
    let entry = catalogue().find(op)?;
    entry.op.kernel?;
    let signature = entry.signature().unwrap();
    let mut node = Node::new("node", op);
    for decl in &signature.attrs {
        let given = types.iter().find(|(name, _)| *name == decl.name);
        let value = match given {
            Some((_, dtype)) if decl.is_list => {
                vec![*dtype; decl.minimum.unwrap_or(1).max(1) as usize].into_attr()
            }
            Some((_, dtype)) => dtype.into_attr(),
            None if decl.default.is_some() => continue,
            None => filler(decl)?,
        };
        node.attrs.insert(decl.name.clone(), value);
    }
    let count = edges(&signature.inputs, &node.attrs, signature);
    node.inputs = vec![Endpoint::new(NodeId::from_index(0), 0); count];
    Some(NodeSpec::resolve(&node, catalogue()).and_then(|spec| spec.kernel().map(drop)))
}

#[test]
fn every_dtype_of_tensorflows_cpu_kernels_has_a_kernel() {
    let file = std::fs::File::open(packed::data_directory().join("kernel_dtypes.txt.gz")).unwrap();
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let (mut made, mut refused) = (0, BTreeMap::new());
    for line in text.lines() {
        let mut words = line.split(' ');
        let op = words.next().unwrap();
        let mut pairs: Vec<(&str, &str)> = words.map(|word| word.split_once('=').unwrap()).collect();
        let (last, dtypes) = pairs.pop().unwrap();
        let fixed: Vec<(&str, DType)> =
            pairs.iter().map(|(attr, dtype)| (*attr, DType::from_name(dtype).unwrap())).collect();
        for name in dtypes.split(',') {
            let mut types = fixed.clone();
            types.push((last, DType::from_name(name).unwrap_or_else(|| panic!("no dtype {name}"))));
            match make_kernel(op, &types) {
                None => {}
                Some(Ok(())) => made += 1,
                // Fillers need not make sense together; a dtype that is refused is another matter.
                Some(Err(status)) if !is_about_dtypes(status.text()) => made += 1,
                Some(Err(status)) => {
                    let head = line.rsplit_once('=').unwrap().0;
                    if !MISSING.iter().any(|(start, _)| head.starts_with(start)) {
                        let entry: &mut (Vec<&str>, String) = refused.entry(head).or_default();
                        entry.0.push(name);
                        entry.1 = status.text().to_string();
                    }
                }
            }
        }
    }
    let list: Vec<String> =
        refused.iter().map(|(head, (names, why))| format!("{head}: {names:?} ({why})")).collect();
    assert!(list.is_empty(), "{} lines of kernels are missing:\n{}", list.len(), list.join("\n"));
    assert!(made > 3000, "only {made} kernels were tried");
}

fn is_about_dtypes(message: &str) -> bool {
    message.contains("No OpKernel was registered")
        || message.contains("allowed values")
        || message.contains("dtype")
}
