//! Substrings and lengths of strings, in bytes or characters.

use bytes::Bytes;
use tensorfleet_core::{PartialShape, Result, Status, Tensor, ensure, memory};

use tensorfleet_kernel::Work;
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::{ShapeContext, broadcast_shapes, integers_of, same_as_input};
use tensorfleet_numeric::broadcast::{BLOCK, Broadcast};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("Substr", "input: string, pos: T, len: T -> output: string")
        .work(Work::Inputs)
        .attrs("T: {int32, int64}; unit: {'BYTE', 'UTF8_CHAR'} = 'BYTE'")
        .shape(substr_shape)
        .kernel(substr),
    Op::new("StringLength", "input: string -> output: int32")
        .work(Work::Inputs)
        .attrs("unit: {'BYTE', 'UTF8_CHAR'} = 'BYTE'")
        .shape(same_as_input)
        .kernel(length),
];

fn counts_characters(node: &NodeSpec<'_>) -> Result<bool> {
    Ok(node.attr::<String>("unit")? == "UTF8_CHAR")
}

/// Bytes that continue a character do not start one.
fn starts_character(byte: u8) -> bool {
    byte & 0xc0 != 0x80
}

fn length(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let characters = counts_characters(node)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let input = ctx.input(0)?;
        let length = |text: &Bytes| match characters {
            true => text.iter().filter(|&&byte| starts_character(byte)).count() as i32,
            false => text.len() as i32,
        };
        let lengths: Vec<i32> = memory::collect(input.as_strings()?.iter().map(length))?;
        let output = Tensor::from_slice(&lengths, input.shape())?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

fn substr_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let positions = ctx.input(1);
    if let (Some(a), Some(b)) = (positions.rank(), ctx.input(2).rank()) {
        ensure!(a == b, InvalidArgument, "pos and len must have the same rank, got {a} and {b}");
    }
    Ok(vec![broadcast_shapes(ctx.input(0), positions)?])
}

/// `Substr`: positions count from the end if negative; a length beyond the end is cut.
fn substr(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let characters = counts_characters(node)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let (input, positions, lengths) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
        ensure!(
            positions.shape() == lengths.shape(),
            InvalidArgument,
            "pos and len should have the same shape, got: {} vs. {}",
            positions.shape(),
            lengths.shape()
        );
        let broadcast = Broadcast::of_two(input.shape(), positions.shape())?;
        let (positions, lengths) = (integers_of(positions)?, integers_of(lengths)?);
        let pairs = elements(&broadcast, &positions)?.into_iter().zip(elements(&broadcast, &lengths)?);
        let strings = broadcast.strings(0, input)?;
        let mut parts = memory::vec_with_room(strings.len())?;
        for (index, (text, (position, length))) in strings.into_iter().zip(pairs).enumerate() {
            let part = match characters {
                true => characters_of(text, position, length)?,
                false => bytes_of(text, position, length),
            };
            parts.push(part.ok_or_else(|| out_of_range(position, text, characters, index))?);
        }
        let output = Tensor::from_strings(parts, broadcast.shape())?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

/// The elements of the second operand, in the order of the result.
fn elements(broadcast: &Broadcast, operand: &[i64]) -> Result<Vec<i64>> {
    let mut reader = broadcast.reader(1, operand);
    let count = broadcast.num_elements();
    let mut elements = memory::vec_with_room(count)?;
    for start in (0..count).step_by(BLOCK) {
        elements.extend_from_slice(reader.block(start, BLOCK.min(count - start)));
    }
    Ok(elements)
}

#[cold]
fn out_of_range(position: i64, text: &[u8], characters: bool, index: usize) -> Status {
    let which = if characters { String::new() } else { format!(" b'{}'", text.escape_ascii()) };
    Status::invalid_argument(format!("pos {position} out of range for string{which} at index {index}"))
}

/// The first unit and the one after the last, out of `count`.
fn window(position: i64, length: i64, count: usize) -> Option<(usize, usize)> {
    let start = if position < 0 { position.checked_add(count as i64)? } else { position };
    let start = usize::try_from(start).ok().filter(|&start| start <= count)?;
    // TensorFlow takes a negative number of bytes for a huge one.
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    Some((start, start.saturating_add(length).min(count)))
}

fn bytes_of(text: &Bytes, position: i64, length: i64) -> Option<Bytes> {
    let (start, end) = window(position, length, text.len())?;
    Some(text.slice(start..end))
}

fn characters_of(text: &Bytes, position: i64, length: i64) -> Result<Option<Bytes>> {
    // A negative number of characters is none from the front, and a mistake from the back (as TensorFlow 2.21 has it).
    if length < 0 && position < 0 {
        return Ok(None);
    }
    let length = length.max(0);
    let starts = memory::collect((0..text.len()).filter(|&at| starts_character(text[at])))?;
    let byte_at = |character: usize| starts.get(character).copied().unwrap_or(text.len());
    let window = window(position, length, starts.len());
    Ok(window.map(|(start, end)| text.slice(byte_at(start)..byte_at(end))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strings::tests::strings;
    use crate::testing::{TestOp, test_op};
    use tensorfleet_core::{Code, DType, Shape};

    fn substr_op(input: Tensor, position: Tensor, length: Tensor) -> TestOp {
        test_op("Substr").attr("T", DType::Int32).input(input).input(position).input(length)
    }

    fn one(text: &str, position: i32, length: i32, unit: &str) -> Result<Tensor> {
        let op =
            substr_op(Tensor::string(text.to_string()), Tensor::scalar(position), Tensor::scalar(length));
        op.attr("unit", unit).run_one()
    }

    #[test]
    fn substrings_are_counted_from_either_end() {
        let cases = [(1, 2, "el"), (-3, 2, "ll"), (5, 1, ""), (-5, 100, "hello"), (1, -1, "ello")];
        for (position, length, expected) in cases {
            assert_eq!(one("hello", position, length, "BYTE").unwrap(), Tensor::string(expected));
        }
        for position in [6, -6, i32::MIN, i32::MAX] {
            assert_eq!(one("hello", position, 1, "BYTE").unwrap_err().code(), Code::InvalidArgument);
        }
        assert_eq!(one("aébc", 1, 2, "UTF8_CHAR").unwrap(), Tensor::string("éb"));
        assert_eq!(one("aébc", -3, 2, "UTF8_CHAR").unwrap(), Tensor::string("éb"));
        assert_eq!(one("aébc", 4, 2, "UTF8_CHAR").unwrap(), Tensor::string(""));
        assert!(one("aébc", 5, 2, "UTF8_CHAR").is_err());
        assert_eq!(one("aébc", 1, -1, "UTF8_CHAR").unwrap(), Tensor::string(""));
        assert!(one("aébc", -2, -1, "UTF8_CHAR").is_err());
    }

    #[test]
    fn positions_and_strings_broadcast() {
        let column = |values: &[i32]| Tensor::from_slice(values, &[2, 1]).unwrap();
        let output =
            substr_op(strings(&["hello", "abcdef"]), column(&[1, 2]), column(&[2, 3])).run_one().unwrap();
        let expected = strings(&["el", "bc", "llo", "cde"]).reshaped(Shape::new(&[2, 2]).unwrap()).unwrap();
        assert_eq!(output, expected);
        let vector = |values: &[i32]| Tensor::vector(values).unwrap();
        let differ = substr_op(strings(&["hello"]), vector(&[1, 2]), vector(&[1]));
        assert_eq!(differ.run().unwrap_err().code(), Code::InvalidArgument);
    }

    #[test]
    fn lengths_are_of_bytes_or_characters() {
        let length = |unit: &str| test_op("StringLength").attr("unit", unit).input(strings(&["aé", ""]));
        assert_eq!(length("BYTE").run_one().unwrap().as_slice::<i32>().unwrap(), [3, 0]);
        assert_eq!(length("UTF8_CHAR").run_one().unwrap().as_slice::<i32>().unwrap(), [2, 0]);
    }
}
