//! The op catalogue: every family's tables, and the ops that are known and refused.
//!
//! This crate is where all families meet. Programs link it, and name it nowhere else: sessions and front ends ask for
//! `tensorfleet_runtime::catalogue::linked()`, which is the function exported here. An edit of a kernel therefore rebuilds its family,
//! this crate and the programs, and nothing in between.
//!
//! To add a family, add its table to the `FAMILIES` of its group; to add a group, add it to the `GROUPS` of its crate.

mod python;
mod unsupported;

use tensorfleet_kernel::Catalogue;
use tensorfleet_kernel::catalogue::Group;

static OWN: &[Group] = &[&[python::OPS, unsupported::OPS]];

static CATALOGUE: Catalogue = Catalogue::new(&[
    OWN,
    tensorfleet_ops_tensor::GROUPS,
    tensorfleet_ops_nn::GROUPS,
    tensorfleet_ops_state::GROUPS,
    tensorfleet_ops_input::GROUPS,
]);

/// All ops of Tensorfleet.
pub fn catalogue() -> &'static Catalogue {
    &CATALOGUE
}

/// [`catalogue`] under the name by which `tensorfleet_runtime::catalogue::linked` finds it.
// SAFETY: no other item of the program has this name, and its declaration in the runtime has this type.
#[unsafe(no_mangle)]
fn tensorfleet_catalogue() -> &'static Catalogue {
    &CATALOGUE
}
