//! `checkpoint export`: the tensors of a checkpoint as `.npz`, one tensor in memory at a time.
//!
//! An `.npz` is a zip archive of `.npy` files. Entries are stored as they are: weights hardly compress, and numpy maps
//! nothing from compressed ones. The file appears complete or not at all.

use std::io::{self, Write};
use std::path::Path;

use serde_json::json;
use tensorfleet::checkpoint::CheckpointReader;
use tensorfleet_core::{DType, Result, Status, ensure};
use tensorfleet_files::{AtomicFile, FileAccess};
use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, ZipWriter};

use super::ExportArguments;
use super::files::open;
use super::name_filter::filtered;
use super::npy::Array;
use crate::{terminal, units};

/// Entries that may come near 4 GB need the larger fields of the format from the start.
const LARGE_BYTES: u64 = 1 << 30;

/// What was written.
#[derive(Default)]
struct Written {
    tensors: usize,
    bytes: u64,
    converted: Vec<String>,
    left_out: Vec<(String, String)>,
}

pub(super) fn run(arguments: &ExportArguments) -> Result<()> {
    let out = &arguments.out;
    ensure!(
        arguments.force || !out.exists(),
        AlreadyExists,
        "{} exists; name another file, or replace it with --force",
        out.display()
    );
    terminal::check_output(out)?;
    let reader = open(&arguments.checkpoint)?;
    let names: Vec<&str> = filtered(reader.iter(), arguments.filter.as_ref(), |tensor| &tensor.name)?
        .into_iter()
        .map(|tensor| tensor.name.as_str())
        .collect();
    let written = write(&reader, &names, out)?;
    for (name, reason) in &written.left_out {
        terminal::tell(&format!("note: {name} is left out: {reason}"));
    }
    if !written.converted.is_empty() {
        let converted = written.converted.join(", ");
        terminal::tell(&format!("note: written as float32, since numpy has no bfloat16: {converted}"));
    }
    terminal::print(&match arguments.json {
        true => format!(
            "{:#}\n",
            json!({
                "checkpoint": reader.prefix(), "file": out.to_string_lossy(), "tensors": written.tensors,
                "bytes": written.bytes, "converted": written.converted,
                "left_out": written.left_out.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            })
        ),
        false => format!(
            "{}: {} of {}, {}\n",
            out.display(),
            units::counted(written.tensors, "tensor"),
            reader.prefix(),
            units::bytes(written.bytes)
        ),
    });
    Ok(())
}

fn write(reader: &CheckpointReader, names: &[&str], out: &Path) -> Result<Written> {
    let failed = |error: &dyn std::fmt::Display| {
        Status::internal(format!("{} cannot be written: {error}; nothing was left behind", out.display()))
    };
    let file = AtomicFile::create(&FileAccess::EVERYWHERE, out).map_err(|status| {
        Status::new(
            status.code(),
            format!(
                "{} cannot be written ({}); name a file in a directory you may write to",
                out.display(),
                status.text()
            ),
        )
    })?;
    let mut archive = ZipWriter::new_stream(Output(file));
    let mut written = Written::default();
    for &name in names {
        let is_opaque = matches!(reader.dtype(name)?, DType::Resource | DType::Variant);
        if is_opaque {
            written.left_out.push((name.to_string(), "handles have no value".to_string()));
            continue;
        }
        let tensor = reader.tensor(name)?;
        let array = match Array::of(&tensor)? {
            Array::Refused(reason) => {
                written.left_out.push((name.to_string(), reason));
                continue;
            }
            array => array,
        };
        let header = array.header(tensor.shape())?;
        let size = tensor.byte_size() as u64;
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(size >= LARGE_BYTES);
        archive.start_file(format!("{name}.npy"), options).map_err(|error| failed(&error))?;
        archive.write_all(&header).map_err(|error| failed(&error))?;
        array.elements(&tensor, |piece| archive.write_all(piece).map_err(|error| failed(&error)))?;
        written.tensors += 1;
        written.bytes += size;
        if matches!(array, Array::BFloat16) {
            written.converted.push(name.to_string());
        }
    }
    ensure!(
        written.tensors > 0 || names.is_empty(),
        InvalidArgument,
        "nothing is written: none of {} can be exported; --filter chooses others",
        units::counted(names.len(), "tensor")
    );
    let Output(file) = archive.finish().map_err(|error| failed(&error))?.into_inner();
    file.commit_durably()?;
    Ok(written)
}

/// The file as the archive wants it.
struct Output(AtomicFile);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(|status| io::Error::other(status.text().to_string()))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
