//! Strings of bytes to numbers: `DecodeRaw` and `DecodeCSV`.

use bytes::Bytes;
use tensorfleet_core::{
    Buffer, DType, PartialShape, Result, Shape, Status, Tensor, bail, ensure, excerpt, memory,
};

use super::csv::{Format, fields};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_numeric::dispatch::no_kernel;
use tensorfleet_ops_tensor::strings::number_text::{parse_float, parse_integer};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("DecodeRaw", "bytes: string -> output: out_type").work(Work::Inputs).not_differentiable()
        .attrs(
            "out_type: {half, float, double, int32, uint16, uint8, int16, int8, int64, complex64, complex128, bool, \
             bfloat16}; little_endian: bool = true",
        )
        .shape(raw_shape)
        .kernel(decode_raw),
    Op::new("DecodeCSV", "records: string, record_defaults: OUT_TYPE -> output: OUT_TYPE")
        .attrs(
            "OUT_TYPE: list({float, double, int32, int64, string}) >= 1; field_delim: string = ','; \
             use_quote_delim: bool = true; na_value: string = ''; select_cols: list(int) = []",
        )
        .shape(csv_shape)
        .kernel(decode_csv),
];

fn raw_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let shape = ctx.input(0).dims().map(|dims| PartialShape::new(dims.iter().copied().chain([None])));
    Ok(vec![shape.unwrap_or_default()])
}

/// `DecodeRaw`: strings of equal length become rows.
fn decode_raw(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let dtype = node.output_dtype(0)?;
    let little_endian: bool = node.attr("little_endian")?;
    let size = dtype.size().ok_or_else(|| no_kernel(dtype))?;
    let swapped = if dtype.is_complex() { size / 2 } else { size };
    Ok(KernelBox::from_fn(move |ctx| {
        let input = ctx.input(0)?;
        let strings = input.as_strings()?;
        let len = strings.first().map_or(0, Bytes::len);
        if let Some((index, other)) = strings.iter().enumerate().find(|(_, other)| other.len() != len) {
            bail!(
                InvalidArgument,
                "DecodeRaw requires input strings to all be the same size, but element {index} has size {len} != {}",
                other.len()
            );
        }
        ensure!(
            len.is_multiple_of(size),
            InvalidArgument,
            "Input to DecodeRaw has length {len} that is not a multiple of {size}, the size of {dtype}"
        );
        let shape = Shape::new(&[&input.shape()[..], &[len / size]].concat())?;
        let mut buffer = Buffer::new(len * strings.len())?;
        if let Some(out) = buffer.as_bytes_mut().filter(|_| len > 0) {
            for (row, string) in out.chunks_exact_mut(len).zip(strings) {
                row.copy_from_slice(string);
            }
            if !little_endian {
                out.chunks_exact_mut(swapped).for_each(<[u8]>::reverse);
            }
        }
        ctx.set_output(0, Tensor::from_buffer(dtype, shape, buffer)?);
        Ok(())
    }))
}

fn csv_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    for index in 1..ctx.num_inputs() {
        let default = ctx.input(index);
        ensure!(
            default.rank().is_none_or(|rank| rank <= 1),
            InvalidArgument,
            "Shape of a default must be a length-0 or length-1 vector, or a scalar, got {default}"
        );
    }
    Ok(vec![ctx.input(0).clone(); ctx.num_outputs()])
}

/// `DecodeCSV`: a column for every field.
fn decode_csv(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let delimiter: Bytes = node.attr("field_delim")?;
    ensure!(delimiter.len() == 1, InvalidArgument, "field_delim should be only 1 char");
    let format = Format { delimiter: delimiter[0], quotes: node.attr("use_quote_delim")? };
    let missing: Bytes = node.attr("na_value")?;
    let selected: Vec<i64> = node.attr("select_cols")?;
    let dtypes: Vec<DType> = node.attr("OUT_TYPE")?;
    ensure!(
        selected.is_empty() || selected.len() == dtypes.len(),
        InvalidArgument,
        "select_cols should match output size"
    );
    ensure!(
        selected.iter().all(|&column| column >= 0) && selected.is_sorted_by(|a, b| a < b),
        InvalidArgument,
        "select_cols should be strictly increasing indices"
    );
    Ok(KernelBox::from_fn(move |ctx| {
        let records = ctx.input(0)?;
        for index in 0..dtypes.len() {
            let count = ctx.input(1 + index)?.num_elements();
            ensure!(
                count <= 1,
                InvalidArgument,
                "There should only be 1 default per field but field {index} has {count}"
            );
        }
        let mut columns: Vec<Vec<Bytes>> = Vec::with_capacity(dtypes.len());
        for _ in &dtypes {
            columns.push(memory::vec_with_room(records.num_elements())?);
        }
        for (number, record) in ctx.step.cancellation.unless_cancelled(records.as_strings()?).enumerate() {
            let mut row = fields(record?, &format)?;
            if !selected.is_empty() {
                row = selected.iter().filter_map(|&column| row.get(column as usize).cloned()).collect();
            }
            ensure!(
                row.len() == dtypes.len(),
                InvalidArgument,
                "Expect {} fields but have {} in record {number}",
                dtypes.len(),
                row.len()
            );
            columns.iter_mut().zip(row).for_each(|(column, field)| column.push(field));
        }
        let shape = records.shape().clone();
        for (index, (column, &dtype)) in columns.iter().zip(&dtypes).enumerate() {
            ctx.check_cancelled()?;
            let decoder = Column { index, missing: &missing, default: ctx.input(1 + index)? };
            let output = decoder.decode(column, dtype, &shape)?;
            ctx.set_output(index, output);
        }
        Ok(())
    }))
}

/// One column of the records.
struct Column<'a> {
    index: usize,
    missing: &'a Bytes,
    default: &'a Tensor,
}

impl Column<'_> {
    fn decode(&self, column: &[Bytes], dtype: DType, shape: &Shape) -> Result<Tensor> {
        match dtype {
            DType::Float => {
                self.numbers(column, shape, |text| parse_float::<f32>(text, |value| value as f32))
            }
            DType::Double => self.numbers(column, shape, |text| parse_float::<f64>(text, |value| value)),
            DType::Int32 => self.numbers(column, shape, parse_integer::<i32>),
            DType::Int64 => self.numbers(column, shape, parse_integer::<i64>),
            DType::String => {
                let default = self.default.as_strings()?.first();
                let field = |(record, text): (usize, &Bytes)| match self.is_missing(text) {
                    true => default.cloned().ok_or_else(|| self.required(record)),
                    false => Ok(text.clone()),
                };
                Tensor::from_strings(column.iter().enumerate().map(field).collect::<Result<_>>()?, shape)
            }
            other => Err(no_kernel(other)),
        }
    }

    fn numbers<T: tensorfleet_core::Element>(
        &self,
        column: &[Bytes],
        shape: &Shape,
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Tensor> {
        let default = self.default.as_slice::<T>()?.first();
        let number = |(record, text): (usize, &Bytes)| match self.is_missing(text) {
            true => default.copied().ok_or_else(|| self.required(record)),
            false => parse(text).ok_or_else(|| {
                Status::invalid_argument(format!(
                    "Field {} in record {record} is not a valid {}: {}",
                    self.index,
                    T::DTYPE,
                    excerpt(text)
                ))
            }),
        };
        let numbers: Vec<T> = column.iter().enumerate().map(number).collect::<Result<_>>()?;
        Tensor::from_slice(&numbers, shape)
    }

    fn is_missing(&self, text: &Bytes) -> bool {
        text.is_empty() || text == self.missing
    }

    #[cold]
    fn required(&self, record: usize) -> Status {
        Status::invalid_argument(format!("Field {} is required but missing in record {record}!", self.index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestOp, test_op};
    use tensorfleet_core::Code;

    fn strings(values: &[&[u8]]) -> Tensor {
        Tensor::from_strings(values.iter().map(|value| value.to_vec().into()).collect(), &[values.len()])
            .unwrap()
    }

    fn raw(values: &[&[u8]], dtype: DType) -> TestOp {
        test_op("DecodeRaw").attr("out_type", dtype).input(strings(values))
    }

    #[test]
    fn bytes_become_rows_of_numbers() {
        let output = raw(&[b"12345678", b"abcdefgh"], DType::Int32).run_one().unwrap();
        assert_eq!(output.as_slice::<i32>().unwrap(), [875770417, 943142453, 1684234849, 1751606885]);
        let swapped = raw(&[b"12345678"], DType::Int16).attr("little_endian", false).run_one().unwrap();
        assert_eq!(swapped.as_slice::<i16>().unwrap(), [12594, 13108, 13622, 14136]);
        let bools = raw(&[b"\x00\x01\x05"], DType::Bool).run_one().unwrap();
        assert_eq!(bools.as_slice::<bool>().unwrap(), [false, true, true]);
        assert_eq!(&raw(&[b"", b""], DType::Int32).run_one().unwrap().shape()[..], [2, 0]);
        assert_eq!(
            raw(&[b"1234", b"12345678"], DType::Int32).run().unwrap_err().code(),
            Code::InvalidArgument
        );
        assert_eq!(raw(&[b"12345"], DType::Int32).run().unwrap_err().code(), Code::InvalidArgument);
    }

    fn csv(records: &[&[u8]]) -> TestOp {
        let op = test_op("DecodeCSV").attr("OUT_TYPE", vec![DType::Int32, DType::Float, DType::String]);
        let op = op.input(strings(records)).input(Tensor::vector::<i32>(&[]).unwrap());
        op.input(Tensor::scalar(0.5f32)).input(strings(&[b""]))
    }

    #[test]
    fn records_become_columns() {
        let columns = csv(&[b"1,2.5,abc", b"3,,\"q,\"\"x\""]).run().unwrap();
        assert_eq!(columns[0].as_slice::<i32>().unwrap(), [1, 3]);
        assert_eq!(columns[1].as_slice::<f32>().unwrap(), [2.5, 0.5]);
        assert_eq!(columns[2], strings(&[b"abc", b"q,\"x"]));
        let some = csv(&[b"9,x,2.5,7,abc"]).attr("select_cols", vec![0i64, 2, 4]).run().unwrap();
        assert_eq!((some[0].as_slice::<i32>().unwrap(), &some[2]), (&[9][..], &strings(&[b"abc"])));
        let absent = csv(&[b"1,NA,NA"]).attr("na_value", "NA").run().unwrap();
        assert_eq!((absent[1].as_slice::<f32>().unwrap(), &absent[2]), (&[0.5][..], &strings(&[b""])));
    }

    #[test]
    fn bad_records_say_what_is_wrong() {
        let message = |record: &[u8]| csv(&[record]).run().unwrap_err().text().to_string();
        assert_eq!(message(b"1,2"), "Expect 3 fields but have 2 in record 0");
        assert_eq!(message(b"1,2,3,4"), "Expect 3 fields but have 4 in record 0");
        assert_eq!(message(b",2,3"), "Field 0 is required but missing in record 0!");
        assert_eq!(message(b"x,2,3"), "Field 0 in record 0 is not a valid int32: x");
        assert_eq!(message(b"1,y,3"), "Field 1 in record 0 is not a valid float: y");
        let op = csv(&[]).attr("select_cols", vec![2i64, 0, 1]);
        assert_eq!(op.run().unwrap_err().code(), Code::InvalidArgument);
        assert_eq!(csv(&[]).attr("field_delim", "ab").run().unwrap_err().code(), Code::InvalidArgument);
    }
}
