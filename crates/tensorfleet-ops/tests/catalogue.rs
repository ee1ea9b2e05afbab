//! What must hold for all ops.

use std::collections::HashSet;

use tensorfleet_ops::catalogue;

#[test]
fn every_declaration_parses_and_every_name_is_unique() {
    let mut names = HashSet::new();
    for op in catalogue().tables() {
        assert!(names.insert(op.name), "op {} stands in two tables", op.name);
        catalogue().find(op.name).unwrap().signature().unwrap();
    }
}
