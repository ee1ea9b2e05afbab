//! [`Catalogue`]: ops by name, as a value.
//!
//! The whole catalogue is made where all families are known (the crate `tensorfleet-ops`); a test makes one of the tables it needs.
//! Whoever resolves nodes is given one.

use std::fmt;
use std::sync::OnceLock;

use rustc_hash::FxHashMap;
use tensorfleet_core::Result;

use crate::op::Op;
use crate::signature::Signature;

/// The tables of a group of families.
pub type Group = &'static [&'static [Op]];

/// All ops that graphs may have.
pub struct Catalogue {
    crates: &'static [&'static [Group]],
    entries: OnceLock<FxHashMap<&'static str, OpEntry>>,
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

impl Catalogue {
    /// The ops of these tables, crate by crate. No two may have the same name.
    pub const fn new(crates: &'static [&'static [Group]]) -> Catalogue {
        Catalogue { crates, entries: OnceLock::new() }
    }

    /// The op called `name`.
    pub fn find(&'static self, name: &str) -> Option<&'static OpEntry> {
        self.entries().get(name)
    }

    /// All ops, by name.
    pub fn all(&self) -> Vec<&'static Op> {
        let mut ops: Vec<&'static Op> = self.tables().collect();
        ops.sort_by_key(|op| op.name);
        ops
    }

    /// All ops, in the order of the tables.
    pub fn tables(&self) -> impl Iterator<Item = &'static Op> + use<> {
        self.crates
            .iter()
            .flat_map(|groups| groups.iter())
            .flat_map(|group| group.iter())
            .flat_map(|family| family.iter())
    }

    fn entries(&self) -> &FxHashMap<&'static str, OpEntry> {
        let entry = |op: &'static Op| (op.name, OpEntry { op, signature: OnceLock::new() });
        self.entries.get_or_init(|| self.tables().map(entry).collect())
    }
}

impl fmt::Debug for Catalogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Catalogue({} ops)", self.tables().count())
    }
}
