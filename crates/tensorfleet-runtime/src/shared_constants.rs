//! [`SharedConstants`]: the constants of a task, each of them once.
//!
//! A session's graph arrives with its constants inside, and a partition of every signature that it runs brings those again
//! that it uses: three hundred signatures over one table of 4 MB would be three hundred tables. Bytes are shared by
//! reference count all the way from the message to the kernel, so it is enough to see, when a graph arrives, that the task
//! has these very bytes already, and to let go of those that came.
//!
//! A message is received into one buffer, and whatever refers to a byte of it keeps all of it. So graphs are decoded into
//! memory of their own, and what is large in them is moved here: into an aligned block, which a kernel uses where it lies.
//!
//! What nobody uses any more goes at once: only weak references are kept here.

use std::hash::Hasher;

use bytes::Bytes;
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;
use tensorfleet_core::{Buffer, DType, Graph, Result, Shape, Tensor, WeakBuffer};
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::attr_value::Value;
use tensorfleet_proto::tensorflow::{AttrValue, GraphDef, TensorProto};

/// Smaller ones are not worth the look.
const SHARED_FROM_BYTES: usize = 1 << 10;
/// Different bytes with the same hash that are looked at. There are none unless somebody makes them.
const MAX_CANDIDATES: usize = 4;
/// A list of values is turned into bytes if these take at most so many times as much. A short list for a large shape repeats
/// its last value, and is better left as it is.
const MAX_GROWTH: usize = 4;

/// Constants that graphs of a task use.
#[derive(Default)]
pub struct SharedConstants {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    by_hash: FxHashMap<u64, SmallVec<[WeakBuffer; 1]>>,
    /// Where each begins, to know it again without a look at its bytes.
    by_address: FxHashMap<usize, WeakBuffer>,
    /// How many there may be before those that are gone are looked for.
    tidy_at: usize,
}

impl SharedConstants {
    /// Puts the bytes that the task has already into the place of equal ones in `graph`, and remembers the others.
    pub fn share(&self, graph: &mut GraphDef) -> Result<()> {
        let library = graph.library.iter_mut().flat_map(|library| &mut library.function);
        let bodies = library.flat_map(|function| &mut function.node_def);
        for node in graph.node.iter_mut().chain(bodies) {
            node.attr.values_mut().try_for_each(|attr| self.share_attr(attr))?;
        }
        Ok(())
    }

    fn share_attr(&self, attr: &mut AttrValue) -> Result<()> {
        match &mut attr.value {
            Some(Value::Tensor(tensor)) => self.share_tensor(tensor),
            Some(Value::List(list)) => {
                list.tensor.iter_mut().try_for_each(|tensor| self.share_tensor(tensor))
            }
            _ => Ok(()),
        }
    }

    fn share_tensor(&self, tensor: &mut TensorProto) -> Result<()> {
        if tensor.tensor_content.is_empty() && is_list_of_numbers(tensor) {
            // One that cannot be decoded is left to whoever uses it, and says which node it is.
            let Ok(decoded) = Tensor::from_proto(tensor) else { return Ok(()) };
            *tensor = decoded.to_proto();
        }
        let strings = tensor.string_val.iter_mut();
        for bytes in strings.chain([&mut tensor.tensor_content]) {
            if bytes.len() >= SHARED_FROM_BYTES {
                *bytes = self.shared(bytes)?;
            }
        }
        Ok(())
    }

    /// These bytes, as the task has them.
    fn shared(&self, bytes: &Bytes) -> Result<Bytes> {
        let is_here =
            |buffer: &Buffer| buffer.as_bytes().as_ptr() == bytes.as_ptr() && buffer.len() == bytes.len();
        let at_address =
            self.known.lock().by_address.get(&bytes.as_ptr().addr()).and_then(WeakBuffer::upgrade);
        if at_address.is_some_and(|buffer| is_here(&buffer)) {
            return Ok(bytes.clone());
        }
        let hash = hash_of(bytes);
        if let Some(known) = self.find(hash, bytes) {
            return Ok(Bytes::from_owner(known));
        }
        let mut buffer = Buffer::new(bytes.len())?;
        if let Some(room) = buffer.as_bytes_mut() {
            room.copy_from_slice(bytes);
        }
        self.known.lock().add(hash, &buffer);
        Ok(Bytes::from_owner(buffer))
    }

    fn find(&self, hash: u64, bytes: &Bytes) -> Option<Buffer> {
        let candidates: SmallVec<[Buffer; 1]> = {
            let known = self.known.lock();
            known.by_hash.get(&hash)?.iter().filter_map(WeakBuffer::upgrade).collect()
        };
        // Not under the lock: this reads all of them.
        candidates.into_iter().find(|candidate| candidate.as_bytes() == &bytes[..])
    }

    /// How many constants there are.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.known.lock().by_address.values().filter(|known| known.upgrade().is_some()).count()
    }
}

impl Known {
    fn add(&mut self, hash: u64, buffer: &Buffer) {
        // The memory of one that is gone may be that of another.
        if self.by_hash.len() >= self.tidy_at {
            self.by_address.retain(|_, known| known.is_used());
            self.by_hash.retain(|_, known| {
                known.retain(|known| known.is_used());
                !known.is_empty()
            });
            self.tidy_at = (2 * self.by_hash.len()).max(64);
        }
        let candidates = self.by_hash.entry(hash).or_default();
        candidates.retain(|known| known.is_used());
        if candidates.len() < MAX_CANDIDATES {
            candidates.push(buffer.downgrade());
            self.by_address.insert(buffer.as_bytes().as_ptr().addr(), buffer.downgrade());
        }
    }
}

/// Whether a tensor comes as a long list of numbers, of which each takes about as much in the list as it does as bytes.
fn is_list_of_numbers(tensor: &TensorProto) -> bool {
    let listed = tensor.encoded_len();
    let size = || {
        let dtype = DType::from_number(tensor.dtype).ok().filter(|dtype| dtype.is_plain())?;
        let shape = Shape::from_proto(tensor.tensor_shape.as_ref()?).ok()?;
        shape.num_elements().checked_mul(dtype.size()?)
    };
    listed >= SHARED_FROM_BYTES && size().is_some_and(|bytes| bytes / MAX_GROWTH <= listed)
}

fn hash_of(bytes: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    hasher.finish()
}

/// The large constants of a graph: where each begins, and its length. Graphs that share one name the same place.
pub fn constant_places(graph: &Graph) -> Vec<(usize, usize)> {
    let attrs = graph.nodes().iter().flat_map(|node| node.attrs.values());
    let contents = attrs.filter_map(|attr| match &attr.value {
        Some(Value::Tensor(tensor)) => Some(&tensor.tensor_content),
        _ => None,
    });
    let large = contents.filter(|content| content.len() >= SHARED_FROM_BYTES);
    large.map(|content| (content.as_ptr().addr(), content.len())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_core::memory::ALIGNMENT;
    use tensorfleet_proto::tensorflow::attr_value::ListValue;
    use tensorfleet_proto::tensorflow::{FunctionDef, FunctionDefLibrary, NodeDef};

    fn constant(name: &str, tensor: TensorProto) -> NodeDef {
        let value = AttrValue { value: Some(Value::Tensor(tensor.into())) };
        NodeDef {
            name: name.into(),
            op: "Const".into(),
            attr: [("value".into(), value)].into(),
            ..Default::default()
        }
    }

    fn numbers(first: f32, count: usize) -> Tensor {
        let values: Vec<f32> = (0..count).map(|index| first + index as f32).collect();
        Tensor::from_slice(&values, &[count]).unwrap()
    }

    /// The graph as it is when it has come over the wire.
    fn received(nodes: Vec<NodeDef>) -> GraphDef {
        let bytes = GraphDef { node: nodes, ..Default::default() }.encode_to_vec();
        GraphDef::decode(&bytes[..]).unwrap()
    }

    fn value(graph: &GraphDef, node: usize) -> Tensor {
        let Some(Value::Tensor(tensor)) = &graph.node[node].attr["value"].value else { panic!("no tensor") };
        Tensor::from_proto(tensor).unwrap()
    }

    fn address(tensor: &Tensor) -> usize {
        tensor.as_bytes().unwrap().as_ptr().addr()
    }

    #[test]
    fn a_constant_that_comes_again_is_the_one_that_is_there() {
        let shared = SharedConstants::default();
        let nodes = || {
            vec![constant("a", numbers(0.0, 1000).to_proto()), constant("b", numbers(1.0, 1000).to_proto())]
        };
        let (mut first, mut second) = (received(nodes()), received(nodes()));
        shared.share(&mut first).unwrap();
        shared.share(&mut second).unwrap();
        for (node, expected) in [(0, numbers(0.0, 1000)), (1, numbers(1.0, 1000))] {
            let (one, other) = (value(&first, node), value(&second, node));
            assert_eq!((&one, &other), (&expected, &expected));
            assert_eq!(address(&one), address(&other));
            assert!(address(&one).is_multiple_of(ALIGNMENT), "kernels use it where it lies");
        }
        assert_eq!(shared.len(), 2);
        // What is here already is known by its place.
        let before = address(&value(&first, 0));
        shared.share(&mut first).unwrap();
        assert_eq!(address(&value(&first, 0)), before);
    }

    #[test]
    fn what_nobody_uses_any_more_is_gone() {
        let shared = SharedConstants::default();
        for round in 0..1000 {
            let mut graph = received(vec![constant("a", numbers(round as f32, 1000).to_proto())]);
            shared.share(&mut graph).unwrap();
            assert_eq!(shared.len(), 1);
        }
        assert!(shared.known.lock().by_hash.len() <= 65, "nor are the traces kept");
    }

    #[test]
    fn lists_of_numbers_become_bytes_unless_they_are_short_for_a_large_shape() {
        let shared = SharedConstants::default();
        let dims = |count| numbers(0.0, count).to_proto().tensor_shape;
        let dtype = DType::Float.number();
        let long =
            TensorProto { dtype, tensor_shape: dims(1000), float_val: vec![2.0; 1000], ..Default::default() };
        let short = TensorProto { tensor_shape: dims(100_000), ..long.clone() };
        let broken = TensorProto { dtype: 99, ..long.clone() };
        let mut graph = received(vec![constant("a", long), constant("b", short), constant("c", broken)]);
        let before = (value(&graph, 0), value(&graph, 1));
        shared.share(&mut graph).unwrap();
        assert_eq!((value(&graph, 0), value(&graph, 1)), before);
        assert_eq!(shared.len(), 1, "the second would be a hundred times as long");
    }

    #[test]
    fn strings_lists_of_tensors_and_functions_are_looked_at_too() {
        let shared = SharedConstants::default();
        let text = Tensor::string(vec![7u8; 5000]);
        let mut listed = constant("list", numbers(0.0, 1000).to_proto());
        let list = ListValue { tensor: vec![numbers(0.0, 1000).to_proto()], ..Default::default() };
        listed.attr.insert("values".into(), AttrValue { value: Some(Value::List(list.into())) });
        let library = FunctionDefLibrary {
            function: vec![FunctionDef {
                node_def: vec![constant("f", text.to_proto())],
                ..Default::default()
            }],
            ..Default::default()
        };
        let graph = GraphDef {
            node: vec![listed, constant("text", text.to_proto())],
            library: Some(library),
            ..Default::default()
        };
        let mut graph = GraphDef::decode(&graph.encode_to_vec()[..]).unwrap();
        shared.share(&mut graph).unwrap();
        assert_eq!(shared.len(), 2, "the numbers and the string, each there twice");
        let before = GraphDef::decode(&graph.encode_to_vec()[..]).unwrap();
        assert_eq!(graph, before, "nothing has another value");
    }
}
