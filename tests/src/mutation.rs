//! Damage to real graphs and tensors, reproducible from a seed: what a hostile or broken client might send.

use bytes::Bytes;
use tensorfleet_core::{DType, Shape, Tensor};
use tensorfleet_proto::tensorflow::attr_value::Value;
use tensorfleet_proto::tensorflow::{AttrValue, GraphDef, NodeDef};

/// A small generator of random choices (SplitMix64), so that a seed says everything about a run. A fuzzer makes the choices
/// itself, as bytes, until it has none left.
#[derive(Clone, Debug)]
pub struct Choices {
    state: u64,
    /// Choices that were made beforehand, the next one last.
    made: Vec<u8>,
}

impl Choices {
    /// The choices that follow from `seed`.
    pub fn new(seed: u64) -> Choices {
        Choices { state: seed, made: Vec::new() }
    }

    /// The choices that `bytes` make, one or a few bytes each, and after these the same ones for all bytes.
    pub fn from_bytes(bytes: &[u8]) -> Choices {
        Choices { state: 0, made: bytes.iter().rev().copied().collect() }
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.made_choice(8).unwrap_or_else(|| self.random())
    }

    fn made_choice(&mut self, bytes: usize) -> Option<u64> {
        let taken = self.made.split_off(self.made.len() - bytes.min(self.made.len()));
        let number = taken.iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
        (!taken.is_empty()).then_some(number)
    }

    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 if the bound is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 {
            return 0;
        }
        let bytes = if bound <= 1 << 8 { 1 } else { 2 };
        let number = self.made_choice(bytes).unwrap_or_else(|| self.random());
        (number % bound as u64) as usize
    }

    /// One of the items, which must not be empty.
    pub fn one_of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// An integer that kernels find hard: small, negative, or at a border.
    pub fn awkward_int(&mut self) -> i64 {
        const AWKWARD: &[i64] = &[
            0,
            1,
            -1,
            2,
            3,
            7,
            -2,
            255,
            i32::MAX as i64,
            i32::MIN as i64,
            i64::MAX,
            i64::MIN,
            1 << 40,
            -(1 << 40),
        ];
        *self.one_of(AWKWARD)
    }
}

/// Flips, drops, repeats and cuts bytes.
pub fn damage_bytes(bytes: &[u8], choices: &mut Choices) -> Vec<u8> {
    let mut damaged = bytes.to_vec();
    for _ in 0..=choices.below(8) {
        let position = choices.below(damaged.len());
        match choices.below(5) {
            0 => damaged.truncate(position),
            1 if !damaged.is_empty() => drop(damaged.remove(position)),
            2 => damaged.insert(position, choices.number() as u8),
            _ => {
                if let Some(byte) = damaged.get_mut(position) {
                    *byte ^= 1 << choices.below(8);
                }
            }
        }
    }
    damaged
}

/// Changes a few things in a graph, each of which leaves a message that can be decoded.
pub fn damage_graph(graph: &mut GraphDef, ops: &[&str], choices: &mut Choices) {
    for _ in 0..=choices.below(3) {
        if graph.node.is_empty() {
            return;
        }
        let (at, other) = (choices.below(graph.node.len()), choices.below(graph.node.len()));
        let other_name = graph.node[other].name.clone();
        let node = &mut graph.node[at];
        match choices.below(8) {
            0 => node.op = choices.one_of(ops).to_string(),
            1 => damage_inputs(node, &other_name, choices),
            2 => {
                let key = node.attr.keys().nth(choices.below(node.attr.len())).cloned();
                key.map(|key| node.attr.remove(&key));
            }
            3 => {
                node.device =
                    choices.one_of(&["/gpu:0", "/job:x", "/task:", "/device:CPU:0", "/"]).to_string()
            }
            _ => {
                let position = choices.below(node.attr.len());
                if let Some(value) = node.attr.values_mut().nth(position) {
                    damage_attr(value, choices);
                }
            }
        }
    }
}

fn damage_inputs(node: &mut NodeDef, other: &str, choices: &mut Choices) {
    let position = choices.below(node.input.len());
    match choices.below(5) {
        0 if !node.input.is_empty() => drop(node.input.remove(position)),
        1 => node.input.insert(position, other.to_string()),
        2 => node.input.push(format!("^{other}")),
        3 => node.input.insert(position, format!("{other}:{}", choices.below(3))),
        _ => {
            if let Some(input) = node.input.get_mut(position) {
                *input = other.to_string();
            }
        }
    }
}

fn damage_attr(attr: &mut AttrValue, choices: &mut Choices) {
    match &mut attr.value {
        Some(Value::I(value)) => *value = choices.awkward_int(),
        Some(Value::F(value)) => *value = *choices.one_of(&[0.0, -1.0, f32::NAN, f32::INFINITY, 1e30]),
        Some(Value::B(value)) => *value = !*value,
        Some(Value::S(value)) => *value = Bytes::from(damage_bytes(value, choices)),
        Some(Value::Type(value)) => *value = choices.below(25) as i32,
        Some(Value::Shape(shape)) => match shape.dim.is_empty() {
            true => shape.unknown_rank = !shape.unknown_rank,
            false => {
                let position = choices.below(shape.dim.len());
                shape.dim[position].size = choices.awkward_int();
            }
        },
        Some(Value::Tensor(tensor)) => {
            let shape = tensor.tensor_shape.get_or_insert_default();
            match choices.below(3) {
                0 => tensor.dtype = choices.below(25) as i32,
                1 => shape.dim.push(dim(choices.awkward_int())),
                _ if shape.dim.is_empty() => {
                    tensor.tensor_content = Bytes::from(damage_bytes(&tensor.tensor_content, choices))
                }
                _ => {
                    let position = choices.below(shape.dim.len());
                    shape.dim[position] = dim(choices.awkward_int());
                }
            }
        }
        Some(Value::List(list)) => {
            list.i.iter_mut().for_each(|value| *value = choices.awkward_int());
            list.r#type.iter_mut().for_each(|value| *value = choices.below(25) as i32);
            list.s.truncate(choices.below(2));
        }
        _ => attr.value = Some(Value::I(choices.awkward_int())),
    }
}

fn dim(size: i64) -> tensorfleet_proto::tensorflow::tensor_shape_proto::Dim {
    tensorfleet_proto::tensorflow::tensor_shape_proto::Dim { size, ..Default::default() }
}

/// A value to feed instead of the right one: another shape, dtype or awkward numbers.
pub fn damaged_feed(value: &Tensor, choices: &mut Choices) -> Tensor {
    let dims: Vec<usize> = match choices.below(4) {
        0 => Vec::new(),
        1 => vec![0],
        2 => vec![choices.below(4), choices.below(4)],
        _ => value.shape().to_vec(),
    };
    let Ok(shape) = Shape::new(&dims) else { return value.clone() };
    let count = shape.num_elements();
    let mut integers = || -> Vec<i64> { (0..count).map(|_| choices.awkward_int()).collect() };
    let made = match value.dtype() {
        DType::Int64 => Tensor::from_slice(&integers(), &dims),
        DType::Int32 => Tensor::from_slice(&integers().iter().map(|&v| v as i32).collect::<Vec<_>>(), &dims),
        DType::UInt8 => Tensor::from_slice(&integers().iter().map(|&v| v as u8).collect::<Vec<_>>(), &dims),
        DType::Float => Tensor::from_slice(&integers().iter().map(|&v| v as f32).collect::<Vec<_>>(), &dims),
        DType::Bool => Tensor::from_slice(&integers().iter().map(|&v| v > 0).collect::<Vec<_>>(), &dims),
        dtype => Tensor::zeros(dtype, shape),
    };
    made.unwrap_or_else(|_| value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph_builder::GraphBuilder;

    #[test]
    fn the_same_seed_does_the_same_damage() {
        let damaged = |seed| {
            let mut choices = Choices::new(seed);
            let mut graph =
                GraphBuilder::new().constant("a", 1i32).typed("b", "Neg", &["a"], DType::Int32).build();
            damage_graph(&mut graph, &["Add", "Sub"], &mut choices);
            (graph, damage_bytes(b"some bytes", &mut choices))
        };
        assert_eq!(damaged(7), damaged(7));
        assert!((0..100).any(|seed| damaged(seed) != damaged(seed + 1)));
        assert_eq!(Choices::new(1).below(0), 0);
        damage_graph(&mut GraphDef::default(), &["Add"], &mut Choices::new(1));
        damage_bytes(b"", &mut Choices::new(3));
    }
}
