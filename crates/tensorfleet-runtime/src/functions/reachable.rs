//! [`reachable`]: the functions that some nodes may need, which travel with them.

use rustc_hash::{FxHashMap, FxHashSet};
use tensorfleet_core::Node;
use tensorfleet_proto::tensorflow::attr_value::Value;
use tensorfleet_proto::tensorflow::{AttrValue, FunctionDef, FunctionDefLibrary, NameAttrList};

/// The functions of `library` that `nodes` may need, with those that these need.
pub(crate) fn reachable<'a>(
    library: Option<&FunctionDefLibrary>,
    nodes: impl IntoIterator<Item = &'a Node>,
) -> Option<FunctionDefLibrary> {
    let library = library.filter(|library| !library.function.is_empty())?;
    let by_name: FxHashMap<&str, &FunctionDef> = library
        .function
        .iter()
        .filter_map(|function| Some((&*function.signature.as_ref()?.name, function)))
        .collect();
    let mut wanted = Vec::new();
    for node in nodes {
        node.attrs.values().for_each(|value| add_names(value, &mut wanted));
        if by_name.contains_key(&*node.op) {
            wanted.push(node.op.to_string());
        }
    }
    let mut found = FxHashSet::default();
    let mut functions = Vec::new();
    while let Some(name) = wanted.pop() {
        let Some(&function) = by_name.get(&*name) else { continue };
        if !found.insert(name) {
            continue;
        }
        functions.push(function.clone());
        for node in &function.node_def {
            node.attr.values().for_each(|value| add_names(value, &mut wanted));
            if by_name.contains_key(&*node.op) {
                wanted.push(node.op.clone());
            }
        }
    }
    (!functions.is_empty()).then(|| FunctionDefLibrary { function: functions, ..Default::default() })
}

/// The functions an attribute names, those in the attributes of functions included.
fn add_names(value: &AttrValue, names: &mut Vec<String>) {
    let mut stack: Vec<&NameAttrList> = match &value.value {
        Some(Value::Func(function)) => vec![function],
        Some(Value::List(list)) => list.func.iter().collect(),
        _ => return,
    };
    while let Some(function) = stack.pop() {
        names.push(function.name.clone());
        for inner in function.attr.values() {
            match &inner.value {
                Some(Value::Func(function)) => stack.push(function),
                Some(Value::List(list)) => stack.extend(&list.func),
                _ => {}
            }
        }
    }
}
