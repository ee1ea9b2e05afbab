//! Stories about the builder that need no op but the graph basics.

use super::*;
use tensorfleet_core::Code;

#[test]
fn placeholder() {
    let mut b = GraphBuilder::new();
    let x = b.emit(NewNode::new("Placeholder").attr("dtype", DType::Float)).unwrap();
    assert_eq!(b.dtype(x).unwrap(), DType::Float);
    let _ = Code::NotFound;
}
