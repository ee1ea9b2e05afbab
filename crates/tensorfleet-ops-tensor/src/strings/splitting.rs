//! Splitting strings into sparse rows of parts.

use bytes::Bytes;
use tensorfleet_core::{PartialShape, Result, StringsBuilder, Tensor, ensure, memory};

use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::ShapeContext;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new(
        "StringSplit",
        "input: string, delimiter: string -> indices: int64, values: string, shape: int64",
    )
    .not_differentiable()
    .attrs("skip_empty: bool = true")
    .shape(split_shape)
    .kernel(split),
    Op::new("StringSplitV2", "input: string, sep: string -> indices: int64, values: string, shape: int64")
        .attrs("maxsplit: int = -1")
        .shape(split_shape)
        .kernel(split_v2),
];

fn split_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    ctx.input_with_rank(0, 1)?;
    ctx.input_with_rank(1, 0)?;
    Ok(vec![PartialShape::new([None, Some(2)]), PartialShape::vector(None), PartialShape::vector(Some(2))])
}

/// Splits every string; the parts of one become a row of a sparse matrix.
fn split_rows(
    ctx: &mut Context<'_>,
    split: impl Fn(&Bytes, &[u8], &mut dyn FnMut(Bytes) -> Result<()>) -> Result<()>,
) -> Result<()> {
    let (input, separator) = (ctx.input(0)?, ctx.input(1)?);
    ensure!(
        input.shape().rank() == 1,
        InvalidArgument,
        "input must be a vector, got shape: {}",
        input.shape()
    );
    ensure!(
        separator.is_scalar(),
        InvalidArgument,
        "delimiter must be a scalar, got shape: {}",
        separator.shape()
    );
    let separator = separator.to_string_scalar()?;
    let (mut indices, mut values, mut widest) = (Vec::new(), StringsBuilder::new(0)?, 0);
    for (row, text) in ctx.step.cancellation.unless_cancelled(input.as_strings()?).enumerate() {
        let mut column = 0;
        split(text?, separator, &mut |part| {
            memory::append(&mut indices, &[row as i64, column])?;
            column += 1;
            values.push(part)
        })?;
        widest = widest.max(column);
    }
    let shape = [input.num_elements() as i64, widest];
    let count = values.len();
    ctx.set_output(0, Tensor::from_slice(&indices, &[count, 2])?);
    ctx.set_output(1, values.finish(&[count])?);
    ctx.set_output(2, Tensor::vector(&shape)?);
    Ok(())
}

/// `StringSplit`: every byte of the delimiter separates; without one, every byte is a part.
fn split(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let skip_empty: bool = node.attr("skip_empty")?;
    Ok(KernelBox::from_fn(move |ctx| {
        split_rows(ctx, |text, delimiters, add| {
            if delimiters.is_empty() {
                return (0..text.len()).try_for_each(|at| add(text.slice(at..at + 1)));
            }
            // An empty string has no parts, not one empty part.
            let parts = text.split(|byte| delimiters.contains(byte)).filter(|_| !text.is_empty());
            let mut parts = parts.filter(|part| !skip_empty || !part.is_empty());
            parts.try_for_each(|part| add(text.slice_ref(part)))
        })
    }))
}

/// `StringSplitV2`: Python's `str.split`. Without a separator, runs of white space separate.
fn split_v2(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let max_split: i64 = node.attr("maxsplit")?;
    Ok(KernelBox::from_fn(move |ctx| {
        split_rows(ctx, |text, separator, add| match (max_split, separator.is_empty()) {
            (0, _) => add(text.clone()),
            (_, true) => split_white_space(text, max_split, add),
            _ => split_by(text, separator, max_split, add),
        })
    }))
}

fn split_by(
    text: &Bytes,
    separator: &[u8],
    max_split: i64,
    add: &mut dyn FnMut(Bytes) -> Result<()>,
) -> Result<()> {
    let (mut parts, mut start, mut at) = (0, 0, 0);
    while at + separator.len() <= text.len() && (max_split < 0 || parts < max_split) {
        if &text[at..at + separator.len()] == separator {
            add(text.slice(start..at))?;
            parts += 1;
            at += separator.len();
            start = at;
        } else {
            at += 1;
        }
    }
    add(text.slice(start..))
}

fn split_white_space(text: &Bytes, max_split: i64, add: &mut dyn FnMut(Bytes) -> Result<()>) -> Result<()> {
    let is_space = |byte: u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let skip = |at: usize, space: bool| {
        let found = text[at..].iter().position(|&byte| is_space(byte) != space);
        found.map_or(text.len(), |offset| at + offset)
    };
    let (mut parts, mut at) = (0, skip(0, true));
    while at < text.len() {
        if max_split >= 0 && parts == max_split {
            return add(text.slice(at..));
        }
        let end = skip(at, false);
        add(text.slice(at..end))?;
        parts += 1;
        at = skip(end, true);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strings::tests::strings;
    use crate::testing::{TestOp, test_op};
    use tensorfleet_core::Code;

    fn check(op: TestOp, columns: &[&[i64]], values: &[&str], widest: i64) {
        let outputs = op.run().unwrap();
        let expected: Vec<i64> = columns
            .iter()
            .enumerate()
            .flat_map(|(row, columns)| columns.iter().flat_map(move |&column| [row as i64, column]))
            .collect();
        assert_eq!(outputs[0].as_slice::<i64>().unwrap(), expected);
        assert_eq!(outputs[1], strings(values));
        assert_eq!(outputs[2].as_slice::<i64>().unwrap(), [columns.len() as i64, widest]);
    }

    fn op(name: &str, input: &[&str], separator: &str) -> TestOp {
        test_op(name).input(strings(input)).input(Tensor::string(separator.to_string()))
    }

    #[test]
    fn every_byte_of_the_delimiter_separates() {
        check(
            op("StringSplit", &["a b  c", "", "d"], " "),
            &[&[0, 1, 2], &[], &[0]],
            &["a", "b", "c", "d"],
            3,
        );
        check(op("StringSplit", &["1,2;3,", "xx"], ",;"), &[&[0, 1, 2], &[0]], &["1", "2", "3", "xx"], 3);
        check(op("StringSplit", &["abc"], ""), &[&[0, 1, 2]], &["a", "b", "c"], 3);
        check(op("StringSplit", &[], " "), &[], &[], 0);
        let keep = op("StringSplit", &["1,2,,3", ""], ",").attr("skip_empty", false);
        check(keep, &[&[0, 1, 2, 3], &[]], &["1", "2", "", "3"], 4);
    }

    #[test]
    fn version_two_splits_as_python_does() {
        let split = |input: &[&str], separator: &str, max: i64| {
            op("StringSplitV2", input, separator).attr("maxsplit", max)
        };
        check(
            split(&["a<>b<><>c", "", "<>"], "<>", -1),
            &[&[0, 1, 2, 3], &[0], &[0, 1]],
            &["a", "b", "", "c", "", "", ""],
            4,
        );
        check(split(&[" a  b\tc ", "   ", ""], "", -1), &[&[0, 1, 2], &[], &[]], &["a", "b", "c"], 3);
        check(
            split(&["a,b,c,d", ",,"], ",", 2),
            &[&[0, 1, 2], &[0, 1, 2]],
            &["a", "b", "c,d", "", "", ""],
            3,
        );
        check(split(&["  a  b  c  d "], "", 2), &[&[0, 1, 2]], &["a", "b", "c  d "], 3);
        check(split(&["  a b "], "", 0), &[&[0]], &["  a b "], 1);
    }

    #[test]
    fn only_vectors_are_split() {
        let op = test_op("StringSplit").input(Tensor::string("a b")).input(Tensor::string(" "));
        assert_eq!(op.run().unwrap_err().code(), Code::InvalidArgument);
    }
}
