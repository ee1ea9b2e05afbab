//! Where the whole catalogue comes from: a function that the program links.
//!
//! This crate is written against `tensorfleet-kernel` and must not be rebuilt for an edit of a kernel, so it cannot depend on the
//! crate that knows all families, `tensorfleet-ops`. That crate exports its catalogue under a name that is declared here, as a global
//! allocator is linked. Programs get it with the crate `tensorfleet`; one without either does not link.
//!
//! Only outermost constructors ask; everything below them is handed a [`Catalogue`].

use tensorfleet_kernel::Catalogue;

// SAFETY: `tensorfleet-ops` defines a function of this name and type, which has no preconditions.
unsafe extern "Rust" {
    safe fn tensorfleet_catalogue() -> &'static Catalogue;
}

/// All ops that this program was built with.
pub fn linked() -> &'static Catalogue {
    tensorfleet_catalogue()
}
