//! The catalogue: every op by name. To add a family, add its table to the `FAMILIES` of its group, or its group
//! to `GROUPS` below.

use std::sync::{LazyLock, OnceLock};

use rustc_hash::FxHashMap;
use tensorfleet_core::Result;

use crate::op::Op;
use crate::signature::Signature;

/// The tables of all families, by group.
static GROUPS: &[&[&[Op]]] = &[
    &[crate::graph_ops::OPS, crate::unsupported::OPS],
    crate::math::FAMILIES,
    crate::array::FAMILIES,
    crate::nn::FAMILIES,
    crate::training::FAMILIES,
    crate::state::FAMILIES,
    crate::lists::FAMILIES,
    crate::io::FAMILIES,
    crate::strings::FAMILIES,
    crate::random::FAMILIES,
    crate::control_flow::FAMILIES,
    crate::data::FAMILIES,
];

fn tables() -> impl Iterator<Item = &'static Op> {
    GROUPS.iter().flat_map(|group| group.iter()).flat_map(|family| family.iter())
}

/// An op with its declaration parsed on first use.
pub struct OpEntry {
    /// The op.
    pub op: &'static Op,
    signature: OnceLock<Result<Signature>>,
}

impl OpEntry {
    /// The parsed declaration.
    pub fn signature(&self) -> Result<&Signature> {
        let parse = || {
            Signature::parse(self.op.signature, self.op.attrs)
                .map_err(|status| status.context(format!("the declaration of op {}", self.op.name)))
        };
        self.signature.get_or_init(parse).as_ref().map_err(Clone::clone)
    }
}

static CATALOGUE: LazyLock<FxHashMap<&'static str, OpEntry>> =
    LazyLock::new(|| tables().map(|op| (op.name, OpEntry { op, signature: OnceLock::new() })).collect());

/// The op called `name`.
pub fn find(name: &str) -> Option<&'static OpEntry> {
    CATALOGUE.get(name)
}

/// All ops, by name.
pub fn all() -> Vec<&'static Op> {
    let mut ops: Vec<&'static Op> = CATALOGUE.values().map(|entry| entry.op).collect();
    ops.sort_by_key(|op| op.name);
    ops
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declaration_parses_and_every_name_is_unique() {
        let mut names = std::collections::HashSet::new();
        for op in tables() {
            assert!(names.insert(op.name), "op {} stands in two tables", op.name);
        }
        for entry in CATALOGUE.values() {
            entry.signature().unwrap();
        }
    }
}
