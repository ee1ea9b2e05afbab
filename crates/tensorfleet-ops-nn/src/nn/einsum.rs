//! `Einsum`: sums of products of one or two tensors, given by an equation of subscripts.
//!
//! Every operand is seen through strides by label, so that diagonals (repeated labels) and broadcasting cost
//! nothing. Two operands are brought into the forms `[batch, free, inner]` and `[batch, inner, free]`, which most
//! already have, and multiplied as batches of matrices.

use std::borrow::Cow;

use tensorfleet_core::{Element, PartialShape, Result, Shape, Status, Tensor, bail, ensure, excerpt, memory};

use tensorfleet_kernel::Work;
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_numeric::dispatch;

use super::einsum_gradient::einsum_gradient;
use tensorfleet_numeric::gemm::{Matrix, Multiply, Output, Threads, multiply};
use tensorfleet_numeric::number::Number;
use tensorfleet_numeric::stored::{Stored, stored_elements};
use tensorfleet_threads::Loops;

/// The family's table.
pub(crate) static OPS: &[Op] = &[Op::new("Einsum", "inputs: N * T -> output: T")
    .work(Work::Inputs)
    .attrs("equation: string; N: int >= 1; T: type")
    .shape(einsum_shape)
    .kernel(einsum)
    .cost(Cost::Heavy)
    .gradient(einsum_gradient)];

/// A subscript: a letter, or a dimension under the ellipsis, counted from the right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Label {
    Letter(char),
    Ellipsis(usize),
}

/// One term of the equation: labels before and after the ellipsis, if there is one.
#[derive(Clone, Debug)]
struct Term {
    before: Vec<Label>,
    after: Option<Vec<Label>>,
}

impl Term {
    fn parse(text: &str) -> Result<Term> {
        let letters = |text: &str| {
            let letter = |c: char| {
                let wrong = || {
                    let text = excerpt(text);
                    Status::invalid_argument(format!("Subscript '{c}' in einsum term '{text}' is no letter"))
                };
                if c.is_ascii_alphabetic() { Ok(Label::Letter(c)) } else { Err(wrong()) }
            };
            text.chars().filter(|c| !c.is_whitespace()).map(letter).collect::<Result<Vec<_>>>()
        };
        Ok(match text.split_once("...") {
            Some((before, after)) => Term { before: letters(before)?, after: Some(letters(after)?) },
            None => Term { before: letters(text)?, after: None },
        })
    }

    /// The labels of all dimensions, if the ellipsis stands for `ellipsis` of them.
    fn labels(&self, ellipsis: usize) -> Vec<Label> {
        let Some(after) = &self.after else { return self.before.clone() };
        let dims = (0..ellipsis).rev().map(Label::Ellipsis);
        self.before.iter().copied().chain(dims).chain(after.iter().copied()).collect()
    }

    /// How many dimensions the ellipsis stands for in an operand of this rank.
    fn ellipsis(&self, rank: usize, index: usize) -> Result<usize> {
        let named = self.before.len() + self.after.as_ref().map_or(0, Vec::len);
        match &self.after {
            None => {
                ensure!(
                    rank == named,
                    InvalidArgument,
                    "Expected input {index} to have rank {named} but got: {rank}"
                );
                Ok(0)
            }
            Some(_) => rank.checked_sub(named).ok_or_else(|| {
                Status::invalid_argument(format!(
                    "Expected input {index} to have rank at least {named} but got: {rank}"
                ))
            }),
        }
    }
}

/// A parsed equation.
#[derive(Clone, Debug)]
struct Equation {
    inputs: Vec<Term>,
    output: Term,
}

impl Equation {
    fn of(node: &NodeSpec<'_>) -> Result<Equation> {
        let text: String = node.attr("equation")?;
        let Some((inputs, output)) = text.split_once("->").filter(|(_, output)| !output.contains("->"))
        else {
            bail!(InvalidArgument, "Expecting exactly one '->' in einsum equation: {text}")
        };
        let equation = Equation {
            inputs: inputs.split(',').map(Term::parse).collect::<Result<_>>()?,
            output: Term::parse(output)?,
        };
        ensure!(
            equation.inputs.len() == node.inputs.len(),
            InvalidArgument,
            "Expected {} inputs for equation {text} but got: {}",
            equation.inputs.len(),
            node.inputs.len()
        );
        ensure!(
            equation.inputs.len() <= 2,
            InvalidArgument,
            "Expecting 1 or 2 input subscripts in equation '{text}' but got: {}",
            equation.inputs.len()
        );
        let known: Vec<Label> = equation.inputs.iter().flat_map(|term| term.labels(0)).collect();
        for label in equation.output.labels(0) {
            if let Label::Letter(letter) = label {
                ensure!(
                    known.contains(&label),
                    InvalidArgument,
                    "Einsum output subscripts for equation '{text}' has label '{letter}' which is not present in the \
                     input subscripts"
                );
            }
        }
        Ok(equation)
    }

    /// Gives labels to all dimensions of operands of these shapes, and a size to every label.
    fn resolve(&self, shapes: &[&Shape]) -> Result<Resolved> {
        let mut resolved = Resolved { sizes: Vec::new(), inputs: Vec::new(), output: Vec::new() };
        let mut ellipsis = 0;
        for (index, (term, shape)) in self.inputs.iter().zip(shapes).enumerate() {
            let own = term.ellipsis(shape.rank(), index)?;
            ellipsis = ellipsis.max(own);
            let labels = term.labels(own);
            for (axis, (&label, &dim)) in labels.iter().zip(shape.iter()).enumerate() {
                resolved.learn(label, dim).map_err(|expected| {
                    Status::invalid_argument(format!(
                        "Expected dimension {expected} at axis {axis} of the input shaped {shape} but got dimension {dim}"
                    ))
                })?;
            }
            resolved.inputs.push(labels);
        }
        resolved.output = self.output.labels(ellipsis);
        Ok(resolved)
    }
}

/// An equation applied to shapes.
struct Resolved {
    sizes: Vec<(Label, usize)>,
    inputs: Vec<Vec<Label>>,
    output: Vec<Label>,
}

impl Resolved {
    /// Notes the size of a label. Dimensions under the ellipsis broadcast.
    fn learn(&mut self, label: Label, dim: usize) -> Result<(), usize> {
        match self.sizes.iter_mut().find(|(known, _)| *known == label) {
            None => self.sizes.push((label, dim)),
            Some((Label::Ellipsis(_), size)) if *size == 1 || dim == 1 => {
                *size = if dim == 1 { *size } else { dim }
            }
            Some((_, size)) if *size != dim => return Err(*size),
            Some(_) => {}
        }
        Ok(())
    }

    fn size(&self, label: Label) -> usize {
        self.sizes.iter().find(|(known, _)| *known == label).map_or(1, |&(_, size)| size)
    }

    fn sizes_of(&self, labels: &[Label]) -> Vec<usize> {
        labels.iter().map(|&label| self.size(label)).collect()
    }

    fn output_shape(&self) -> Result<Shape> {
        Shape::new(&self.sizes_of(&self.output))
    }
}

fn einsum_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let equation = Equation::of(ctx.node)?;
    let shapes: Option<Vec<Shape>> = (0..ctx.num_inputs()).map(|index| ctx.input(index).to_shape()).collect();
    let Some(shapes) = shapes else { return Ok(vec![PartialShape::unknown()]) };
    let resolved = equation.resolve(&shapes.iter().collect::<Vec<_>>())?;
    Ok(vec![resolved.output_shape()?.into()])
}

/// Strides of a row-major tensor by label: repeated labels walk the diagonal, broadcast ones stay.
fn strides(labels: &[Label], dims: &[usize], sizes: &Resolved) -> Vec<(Label, usize)> {
    let mut by_label: Vec<(Label, usize)> = Vec::new();
    let mut stride = 1;
    for (&label, &dim) in labels.iter().zip(dims).rev() {
        let step = if dim == 1 && sizes.size(label) != 1 { 0 } else { stride };
        match by_label.iter_mut().find(|(known, _)| *known == label) {
            Some((_, total)) => *total += step,
            None => by_label.push((label, step)),
        }
        stride *= dim;
    }
    by_label
}

fn stride_of(strides: &[(Label, usize)], label: Label) -> usize {
    strides.iter().find(|(known, _)| *known == label).map_or(0, |&(_, stride)| stride)
}

/// Walks all positions of a box in row-major order and hands out the offset that the strides give.
fn walk(dims: &[usize], strides: &[usize], mut visit: impl FnMut(usize)) {
    if dims.contains(&0) {
        return;
    }
    let mut position = vec![0; dims.len()];
    let mut offset = 0;
    loop {
        visit(offset);
        let mut axis = dims.len();
        loop {
            let Some(next) = axis.checked_sub(1) else { return };
            axis = next;
            position[axis] += 1;
            offset += strides[axis];
            if position[axis] < dims[axis] {
                break;
            }
            offset -= strides[axis] * dims[axis];
            position[axis] = 0;
        }
    }
}

/// An operand with its dimensions in the given order, all others summed up.
fn arranged<'a, T: Stored<Compute: Number>>(
    data: &'a [T],
    strides: &[(Label, usize)],
    order: &[Label],
    sizes: &Resolved,
) -> Result<Cow<'a, [T]>> {
    let dims = sizes.sizes_of(order);
    let count = Shape::new(&dims)?.num_elements();
    let outer: Vec<usize> = order.iter().map(|&label| stride_of(strides, label)).collect();
    let summed: Vec<(Label, usize)> =
        strides.iter().copied().filter(|(label, _)| !order.contains(label)).collect();
    let mut dense = 1;
    let in_place = dims.iter().zip(&outer).rev().all(|(&dim, &stride)| {
        let fits = dim == 1 || stride == dense;
        dense *= dim;
        fits
    });
    if in_place && summed.is_empty() && count == data.len() {
        return Ok(Cow::Borrowed(data));
    }
    // Bounded by the memory limit before anything grows.
    let mut sums: Vec<T::Compute> = memory::vec_with_room(count)?;
    let (inner_dims, inner): (Vec<usize>, Vec<usize>) =
        summed.iter().map(|&(label, stride)| (sizes.size(label), stride)).unzip();
    walk(&dims, &outer, |offset| {
        let mut sum = <T::Compute as Number>::ZERO;
        walk(&inner_dims, &inner, |more| sum = sum.plus(data[offset + more].widened()));
        sums.push(sum);
    });
    Ok(Cow::Owned(stored_elements(&sums)?))
}

fn einsum(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let equation = Equation::of(node)?;
    dispatch!(node.dtype()?, T in [f32, f64, half::f16, half::bf16, i32, i64, num_complex::Complex<f32>,
        num_complex::Complex<f64>] => Ok(KernelBox::from_fn(move |ctx| run::<T>(ctx, &equation))))
}

fn run<T: Multiply + Stored<Compute: Number>>(ctx: &mut Context<'_>, equation: &Equation) -> Result<()> {
    let inputs = (0..ctx.num_inputs()).map(|index| ctx.input(index)).collect::<Result<Vec<_>>>()?;
    let resolved = equation.resolve(&inputs.iter().map(|input| input.shape()).collect::<Vec<_>>())?;
    let mut operands = Vec::new();
    for (input, labels) in inputs.iter().zip(&resolved.inputs) {
        operands.push((input.as_slice::<T>()?, strides(labels, input.shape(), &resolved)));
    }
    let (order, elements) = match &operands[..] {
        [(data, strides)] => {
            let order = unique(resolved.output.iter().copied());
            let elements = arranged(data, strides, &order, &resolved)?;
            (order, elements)
        }
        [a, b] => {
            let (order, elements) = contract(ctx.loops(), (a.0, &a.1), (b.0, &b.1), &resolved)?;
            (order, Cow::Owned(elements))
        }
        _ => bail!(Internal, "an einsum has one or two operands"),
    };
    let output = spread(&order, &elements, &resolved)?;
    ctx.set_output(0, output);
    Ok(())
}

fn unique(labels: impl Iterator<Item = Label>) -> Vec<Label> {
    let mut seen = Vec::new();
    labels.for_each(|label| {
        if !seen.contains(&label) {
            seen.push(label);
        }
    });
    seen
}

type View<'a, T> = (&'a [T], &'a [(Label, usize)]);

/// The product of two operands, as `[batch, free labels of a, free labels of b]`.
fn contract<T: Multiply + Stored<Compute: Number>>(
    loops: &Loops,
    a: View<'_, T>,
    b: View<'_, T>,
    sizes: &Resolved,
) -> Result<(Vec<Label>, Vec<T>)> {
    let of = |view: &View<'_, T>| view.1.iter().rev().map(|&(label, _)| label).collect::<Vec<_>>();
    let (a_labels, b_labels) = (of(&a), of(&b));
    let kept = |label: &Label| sizes.output.contains(label);
    let pick = |labels: &[Label], wanted: &dyn Fn(&Label) -> bool| -> Vec<Label> {
        labels.iter().copied().filter(wanted).collect()
    };
    let batch = pick(&a_labels, &|label| b_labels.contains(label) && kept(label));
    let inner = pick(&a_labels, &|label| b_labels.contains(label) && !kept(label));
    let a_free = pick(&a_labels, &|label| !b_labels.contains(label) && kept(label));
    let b_free = pick(&b_labels, &|label| !a_labels.contains(label) && kept(label));

    let left = arranged(a.0, a.1, &[&batch[..], &a_free, &inner].concat(), sizes)?;
    let right = arranged(b.0, b.1, &[&batch[..], &inner, &b_free].concat(), sizes)?;
    let count = |labels: &[Label]| sizes.sizes_of(labels).iter().product::<usize>();
    let (rows, cols, depth) = (count(&a_free), count(&b_free), count(&inner));
    let order = [&batch[..], &a_free, &b_free].concat();
    let shape = Shape::new(&sizes.sizes_of(&order))?;
    let mut product = memory::vec_of(T::default(), shape.num_elements())?;
    if !product.is_empty() && depth > 0 {
        let operands = left.chunks(rows * depth).zip(right.chunks(depth * cols));
        for (out, (left, right)) in product.chunks_mut(rows * cols).zip(operands) {
            let (left, right) = (Matrix::new(left, rows, depth)?, Matrix::new(right, depth, cols)?);
            multiply(left, right, out, Output::Overwrite, Threads::Many(loops))?;
        }
    }
    Ok((order, product))
}

/// Writes elements with dimensions `order` to where the output's labels want them; zeros off the diagonals.
fn spread<T: Element>(order: &[Label], elements: &[T], sizes: &Resolved) -> Result<Tensor> {
    let shape = sizes.output_shape()?;
    if order == &sizes.output[..] {
        return Tensor::from_slice(elements, &shape);
    }
    let strides = strides(&sizes.output, &shape, sizes);
    let steps: Vec<usize> = order.iter().map(|&label| stride_of(&strides, label)).collect();
    let mut output = Tensor::zeros(T::DTYPE, shape)?;
    let out = output.make_mut::<T>()?;
    let mut elements = elements.iter();
    walk(&sizes.sizes_of(order), &steps, |offset| {
        if let Some(&element) = elements.next() {
            out[offset] = element;
        }
    });
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestOp, test_op};
    use tensorfleet_core::{Code, DType};

    fn run(equation: &str, shapes: &[&[usize]]) -> Result<(Vec<usize>, Vec<f32>)> {
        let run = test_op("Einsum")
            .attr("T", DType::Float)
            .attr("equation", equation)
            .attr("N", shapes.len() as i64);
        let counting = |dims: &&[usize]| {
            let count: usize = dims.iter().product();
            Tensor::from_slice(&(0..count).map(|i| i as f32).collect::<Vec<_>>(), dims).unwrap()
        };
        let output = shapes.iter().map(counting).fold(run, TestOp::input).run_one()?;
        Ok((output.shape().to_vec(), output.as_slice::<f32>()?.to_vec()))
    }

    #[test]
    fn products_sums_and_diagonals_are_tensorflows() {
        for (equation, shapes, dims, expected) in [
            ("ii->i", &[&[2, 2][..]][..], &[2][..], &[0.0, 3.0][..]),
            ("i->ii", &[&[2]], &[2, 2], &[0.0, 0.0, 0.0, 1.0]),
            ("...ij,jk->...ik", &[&[2, 2, 3], &[3, 1]], &[2, 2, 1], &[5.0, 14.0, 23.0, 32.0]),
            ("ij->", &[&[2, 3]], &[], &[15.0]),
            ("i,j->ij", &[&[2], &[3]], &[2, 3], &[0.0, 0.0, 0.0, 0.0, 1.0, 2.0]),
            ("ab,bc->ca", &[&[2, 3], &[3, 2]], &[2, 2], &[10.0, 28.0, 13.0, 40.0]),
            ("i...->...", &[&[2, 3]], &[3], &[3.0, 5.0, 7.0]),
            ("ij,jk->ik", &[&[2, 0], &[0, 1]], &[2, 1], &[0.0, 0.0]),
        ] {
            let (found_dims, found) = run(equation, shapes).unwrap();
            assert_eq!((&found_dims[..], &found[..]), (dims, expected), "{equation}");
        }
    }

    #[test]
    fn equations_that_make_no_sense_are_refused() {
        for (equation, shapes, fragment) in [
            (
                "ij,jk->ik",
                &[&[2, 3][..], &[4, 5]][..],
                "Expected dimension 3 at axis 0 of the input shaped [4,5] but got dimension 4",
            ),
            ("ij->ji", &[&[2]], "Expected input 0 to have rank 2 but got: 1"),
            ("ij,jk", &[&[2, 3], &[3, 5]], "Expecting exactly one '->'"),
            ("ij->ijk", &[&[2, 3]], "has label 'k' which is not present"),
            ("i1->i", &[&[2, 3]], "is no letter"),
            ("ij->i", &[&[2, 3], &[2, 3]], "Expected 1 inputs"),
            ("a,b,c->abc", &[&[2], &[2], &[2]], "Expecting 1 or 2 input subscripts"),
        ] {
            let status = run(equation, shapes).unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument);
            assert!(status.text().contains(fragment), "{equation}: {}", status.text());
        }
    }
}
