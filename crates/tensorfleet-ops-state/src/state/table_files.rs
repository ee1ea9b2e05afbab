//! Tables that are filled from a text file: a vocabulary with a word per line, or columns.
//!
//! Keys and values come from a column each, from the whole line, or from the number of the line. As in TensorFlow 2.21
//! `offset` is added to the numbers of lines and leaves none out, an empty line or file is an error, and lines beyond
//! `vocab_size` are not looked at.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use tensorfleet_core::{DType, Result, Status, Tensor, bail, ensure, excerpt, memory};
use tensorfleet_files::io_status;

use super::naming::no_outputs;
use super::table::Table;
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;

const ATTRS: &str = "key_index: int >= -2; value_index: int >= -2; vocab_size: int >= -1 = -1; \
                     delimiter: string = '\t'; offset: int = 0";

/// Longer lines are no words.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("InitializeTableFromTextFile", "table_handle: Ref(string), filename: string")
        .not_differentiable()
        .attrs(ATTRS)
        .shape(no_outputs)
        .kernel(initialize),
    Op::new("InitializeTableFromTextFileV2", "table_handle: resource, filename: string")
        .not_differentiable()
        .attrs(ATTRS)
        .stateful()
        .shape(no_outputs)
        .kernel(initialize),
];

/// Where keys or values come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    WholeLine,
    LineNumber,
    Column(usize),
}

impl Source {
    fn new(index: i64) -> Result<Source> {
        Ok(match index {
            -2 => Source::WholeLine,
            -1 => Source::LineNumber,
            _ => match usize::try_from(index) {
                Ok(column) => Source::Column(column),
                Err(_) => bail!(InvalidArgument, "Invalid index {index}: -2, -1 or a column is expected"),
            },
        })
    }

    fn check(self, what: &str, dtype: DType) -> Result<()> {
        let expected = match self {
            Source::WholeLine => DType::String,
            Source::LineNumber => DType::Int64,
            Source::Column(_) => return Ok(()),
        };
        ensure!(
            dtype == expected,
            InvalidArgument,
            "{what} of the table are {dtype}, but {} are {expected}",
            if self == Source::WholeLine { "whole lines" } else { "numbers of lines" }
        );
        Ok(())
    }
}

/// What a node says about its file.
struct Vocabulary {
    keys: Source,
    values: Source,
    /// `None`: all lines.
    lines: Option<usize>,
    delimiter: u8,
    offset: i64,
}

fn initialize(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let delimiter: String = node.attr("delimiter")?;
    let [delimiter] = *delimiter.as_bytes() else {
        bail!(InvalidArgument, "delimiter should be only 1 char, got '{delimiter}'")
    };
    let lines: i64 = node.attr("vocab_size")?;
    let vocabulary = Vocabulary {
        keys: Source::new(node.attr("key_index")?)?,
        values: Source::new(node.attr("value_index")?)?,
        lines: usize::try_from(lines).ok(),
        delimiter,
        offset: node.attr("offset")?,
    };
    Ok(KernelBox::from_fn(move |ctx| {
        let table = ctx.resource::<Table>(0)?;
        let name = ctx.input(1)?;
        ensure!(
            name.is_scalar(),
            InvalidArgument,
            "filename should be a single string, but got {}",
            name.shape()
        );
        let path = String::from_utf8_lossy(name.to_string_scalar()?).into_owned();
        let file = ctx.file_access().open(&path)?;
        let (key_dtype, value_dtype) = table.dtypes();
        let (keys, values) = vocabulary.read(file, Path::new(&path), key_dtype, value_dtype)?;
        table.import(&keys, &values)
    }))
}

impl Vocabulary {
    /// Keys and values of the file.
    fn read(
        &self,
        file: File,
        path: &Path,
        key_dtype: DType,
        value_dtype: DType,
    ) -> Result<(Tensor, Tensor)> {
        self.keys.check("keys", key_dtype)?;
        self.values.check("values", value_dtype)?;
        let mut input = BufReader::new(file);
        let (mut keys, mut values) = (Cells::new(key_dtype)?, Cells::new(value_dtype)?);
        let mut line = Vec::new();
        let mut count = 0;
        while self.lines.is_none_or(|lines| count < lines) {
            line.clear();
            let mut part = (&mut input).take(MAX_LINE_BYTES);
            let read =
                memory::read_until(&mut part, b'\n', &mut line)?.map_err(|error| io_status(path, &error))?;
            if read == 0 {
                break;
            }
            let text = without_end(&line);
            let place = || format!("line {count} of {}", path.display());
            ensure!(read < MAX_LINE_BYTES as usize, InvalidArgument, "{} is too long for a word", place());
            ensure!(!text.is_empty(), InvalidArgument, "Invalid content in {}: empty line found", place());
            let number = self.offset.wrapping_add(count as i64);
            for (cells, source) in [(&mut keys, self.keys), (&mut values, self.values)] {
                match source {
                    Source::WholeLine => cells.push_text(text).map_err(|status| status.context(place()))?,
                    Source::LineNumber => cells.push_number(number)?,
                    Source::Column(column) => {
                        let cell =
                            text.split(|&byte| byte == self.delimiter).nth(column).ok_or_else(|| {
                                Status::invalid_argument(format!(
                                    "Invalid number of columns in {}: there is no column {column}",
                                    place()
                                ))
                            })?;
                        cells.push_text(cell).map_err(|status| status.context(place()))?;
                    }
                }
            }
            count += 1;
        }
        ensure!(count > 0, OutOfRange, "{} has no line to fill the table with", path.display());
        if let Some(expected) = self.lines {
            ensure!(
                count == expected,
                InvalidArgument,
                "Invalid vocab_size in {}: expected {expected} but got {count}",
                path.display()
            );
        }
        Ok((keys.into_tensor(count)?, values.into_tensor(count)?))
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// A column of a table.
enum Cells {
    Strings(Vec<bytes::Bytes>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
}

impl Cells {
    fn new(dtype: DType) -> Result<Cells> {
        Ok(match dtype {
            DType::String => Cells::Strings(Vec::new()),
            DType::Int32 => Cells::Int32(Vec::new()),
            DType::Int64 => Cells::Int64(Vec::new()),
            DType::Float => Cells::Float(Vec::new()),
            DType::Double => Cells::Double(Vec::new()),
            _ => bail!(InvalidArgument, "Data type {dtype} not supported: a file has strings and numbers"),
        })
    }

    fn push_number(&mut self, number: i64) -> Result<()> {
        match self {
            Cells::Int64(cells) => cells.push(number),
            _ => bail!(Internal, "numbers of lines go into integers only"),
        }
        Ok(())
    }

    fn push_text(&mut self, text: &[u8]) -> Result<()> {
        match self {
            Cells::Strings(cells) => cells.push(bytes::Bytes::copy_from_slice(text)),
            Cells::Int32(cells) => cells.push(parsed(text, "int32")?),
            Cells::Int64(cells) => cells.push(parsed(text, "int64")?),
            Cells::Float(cells) => cells.push(parsed(text, "float")?),
            Cells::Double(cells) => cells.push(parsed(text, "double")?),
        }
        Ok(())
    }

    fn into_tensor(self, count: usize) -> Result<Tensor> {
        match self {
            Cells::Strings(cells) => Tensor::from_strings(cells, &[count]),
            Cells::Int32(cells) => Tensor::vector(&cells),
            Cells::Int64(cells) => Tensor::vector(&cells),
            Cells::Float(cells) => Tensor::vector(&cells),
            Cells::Double(cells) => Tensor::vector(&cells),
        }
    }
}

fn parsed<T: std::str::FromStr>(text: &[u8], dtype: &str) -> Result<T> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.trim_ascii().parse().ok());
    number.ok_or_else(|| {
        let text = excerpt(text);
        Status::invalid_argument(format!("Field '{text}' is not a valid {dtype}"))
    })
}

#[cfg(test)]
mod tests {
    use tensorfleet_core::Code;

    use super::*;

    /// The file's keys and values, as TensorFlow 2.21 was seen to read it.
    fn read(content: &str, dtypes: [DType; 2], sources: [i64; 2], lines: i64) -> Result<(Tensor, Tensor)> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vocabulary");
        std::fs::write(&path, content).unwrap();
        let vocabulary = Vocabulary {
            keys: Source::new(sources[0])?,
            values: Source::new(sources[1])?,
            lines: usize::try_from(lines).ok(),
            delimiter: b'\t',
            offset: 0,
        };
        vocabulary.read(File::open(&path).unwrap(), &path, dtypes[0], dtypes[1])
    }

    const WORDS: [DType; 2] = [DType::String, DType::Int64];

    #[test]
    fn lines_are_numbered_whatever_ends_them() {
        for content in ["a\nb\nc\n", "a\nb\nc", "a\r\nb\r\nc\r\n"] {
            let (keys, values) = read(content, WORDS, [-2, -1], -1).unwrap();
            assert_eq!(keys.as_strings().unwrap(), ["a", "b", "c"]);
            assert_eq!(values.as_slice::<i64>().unwrap(), [0, 1, 2]);
        }
        let (numbers, words) = read("a\nb\n", [DType::Int64, DType::String], [-1, -2], -1).unwrap();
        assert_eq!((numbers.num_elements(), words.num_elements()), (2, 2));
        assert_eq!(read("a\nb\nc\n", WORDS, [-2, -1], 2).unwrap().0.num_elements(), 2);
    }

    #[test]
    fn columns_become_numbers_of_the_tables_dtype() {
        let column = |dtype| read("a\t 7 \nb\t+8\n", [DType::String, dtype], [0, 1], -1).unwrap().1;
        assert_eq!(column(DType::Int64).as_slice::<i64>().unwrap(), [7, 8]);
        assert_eq!(column(DType::Int32).as_slice::<i32>().unwrap(), [7, 8]);
        assert_eq!(column(DType::Double).as_slice::<f64>().unwrap(), [7.0, 8.0]);
    }

    #[test]
    fn files_that_do_not_fit_are_errors() {
        let code = |content, dtypes, sources, lines| {
            read(content, dtypes, sources, lines).map(|_| ()).unwrap_err().code()
        };
        assert_eq!(code("a\n\nc\n", WORDS, [-2, -1], -1), Code::InvalidArgument);
        assert_eq!(code("a\n", WORDS, [-2, -1], 5), Code::InvalidArgument);
        assert_eq!(code("", WORDS, [-2, -1], -1), Code::OutOfRange);
        assert_eq!(code("a\n", WORDS, [-2, -1], 0), Code::OutOfRange);
        assert_eq!(code("a\tx\n", WORDS, [0, 1], -1), Code::InvalidArgument);
        assert_eq!(code("a\t99999999999999999999\n", WORDS, [0, 1], -1), Code::InvalidArgument);
        assert_eq!(code("a\t1\nb\n", WORDS, [0, 1], -1), Code::InvalidArgument);
        assert_eq!(code("a\n", [DType::String; 2], [-2, -1], -1), Code::InvalidArgument);
        assert_eq!(code("a\n", [DType::Int64; 2], [-2, -1], -1), Code::InvalidArgument);
        assert_eq!(code("a\n", [DType::Bool, DType::Int64], [0, -1], -1), Code::InvalidArgument);
    }
}
