//! The gradient of `Einsum`: again products by equation.
//!
//! The gradient of an operand is the product of what arrives and the other operand, with the operand's labels as the
//! output: of `ij,jk->ik`, `ik,jk->ij`. Three things make it longer. A label that only this operand has was summed over,
//! so the gradient is stretched along it. A label that it has twice stands for a diagonal. And what an ellipsis stands for
//! may have been broadcast, so it is summed back.

use tensorfleet_core::{Endpoint, Result, Status, Tensor};

use tensorfleet_kernel::builder::NewNode;
use tensorfleet_kernel::gradients::{Differential, Grad, Grads, Symbol, apply, conj};

const ELLIPSIS: char = '.';

pub(super) fn einsum_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    // Each ellipsis is one character here, as if it were a label.
    let equation: String = d.attr("equation")?;
    let equation: String =
        equation.replace("...", ".").chars().filter(|label| !label.is_whitespace()).collect();
    let malformed = || Status::invalid_argument(format!("'{equation}' is no equation with one '->'"));
    let (terms, output) = equation.split_once("->").ok_or_else(malformed)?;
    let terms: Vec<&str> = terms.split(',').collect();
    let (operands, dy) = (d.inputs(), d.dy(0)?);
    let mut grads = Vec::with_capacity(operands.len());
    for (index, (&operand, &term)) in operands.iter().zip(&terms).enumerate() {
        let mut factors = vec![(dy, output)];
        for (other, (&value, &term)) in operands.iter().zip(&terms).enumerate() {
            if other != index {
                factors.push((d.build(conj(value))?, term));
            }
        }
        grads.push(Some(Grad::Dense(operand_gradient(d, operand, term, &factors)?)));
    }
    Ok(grads)
}

fn operand_gradient(
    d: &mut Differential<'_>,
    operand: Endpoint,
    term: &str,
    factors: &[(Endpoint, &str)],
) -> Result<Endpoint> {
    let is_broadcast =
        term.contains(ELLIPSIS) && factors.iter().skip(1).any(|(_, other)| other.contains(ELLIPSIS));
    let mut labels: Vec<char> = Vec::new();
    for label in term.chars() {
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    if is_broadcast {
        // What is broadcast comes first, where broadcasting expects it.
        labels.sort_by_key(|&label| label != ELLIPSIS);
    }
    let unique: String = labels.iter().collect();
    let present: String =
        labels.iter().filter(|&&label| factors.iter().any(|(_, factor)| factor.contains(label))).collect();
    let mut gradient = product(d, factors, &present)?;
    // The operand as far as its shape matters: each label once.
    let shaped = match unique == term {
        true => operand,
        false => product(d, &[(operand, term)], &unique)?,
    };
    if present != unique {
        gradient = stretch(d, gradient, &labels, &present, shaped)?;
    }
    if is_broadcast {
        (gradient, _) = d.unbroadcast((shaped, gradient), (gradient, gradient))?;
    }
    match unique == term {
        true => Ok(gradient),
        false => product(d, &[(gradient, &unique)], term),
    }
}

/// Inserts the labels that are missing, and stretches along them as far as `shaped` goes.
fn stretch(
    d: &mut Differential<'_>,
    mut value: Endpoint,
    labels: &[char],
    present: &str,
    shaped: Endpoint,
) -> Result<Endpoint> {
    // Axes after the ellipsis are counted from the right, since nobody knows how many it stands for.
    let ellipsis = labels.iter().position(|&label| label == ELLIPSIS).unwrap_or(labels.len());
    let is_missing = |label: &char| !present.contains(*label);
    let before = (0..ellipsis).map(|axis| (axis, axis as i32));
    let after = (ellipsis + 1..labels.len()).rev().map(|axis| (axis, axis as i32 - labels.len() as i32));
    for (index, axis) in before.chain(after) {
        if labels.get(index).is_some_and(is_missing) {
            let axis = d.constant(Tensor::scalar(axis))?;
            value = d.op("ExpandDims", [value, axis])?;
        }
    }
    // Adding zeros stretches both ways, should something else be broadcast already.
    d.build(Symbol(value) + apply("ZerosLike", shaped))
}

/// The product of one or two factors.
fn product(d: &mut Differential<'_>, factors: &[(Endpoint, &str)], output: &str) -> Result<Endpoint> {
    if let [(value, term)] = factors
        && *term == output
    {
        return Ok(*value);
    }
    let terms: Vec<&str> = factors.iter().map(|&(_, term)| term).collect();
    let equation = format!("{}->{output}", terms.join(",")).replace(ELLIPSIS, "...");
    let inputs: Vec<Endpoint> = factors.iter().map(|&(value, _)| value).collect();
    d.emit(NewNode::new("Einsum").input_list(inputs).attr("equation", equation.as_str()))
}
