//! Record files (TFRecord), read and written from Python.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

use parking_lot::Mutex;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tensorfleet_files::file_access::FileAccess;
use tensorfleet_files::io_status;
use tensorfleet_files::record::{Compression, RecordReader, RecordWriter};

use crate::errors::OrRaise;

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyRecordReader>()?;
    module.add_class::<PyRecordWriter>()
}

/// The records of a file, one after the other.
#[pyclass(frozen, name = "RecordReader", module = "tensorfleet._native")]
struct PyRecordReader(Mutex<RecordReader>);

#[pymethods]
impl PyRecordReader {
    /// Opens a file that is compressed as said: ``, `ZLIB` or `GZIP`.
    #[new]
    fn new(py: Python<'_>, path: PathBuf, compression: &str) -> PyResult<PyRecordReader> {
        let compression = Compression::from_name(compression).or_raise(py)?;
        let opened =
            py.detach(|| RecordReader::open(&FileAccess::EVERYWHERE, path, compression)).or_raise(py)?;
        Ok(PyRecordReader(Mutex::new(opened)))
    }

    /// The next record, or `None` at the end.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let record = py.detach(|| self.0.lock().next_record()).or_raise(py)?;
        Ok(record.map(|record| PyBytes::new(py, &record)))
    }
}

/// A record file that is being written.
#[pyclass(frozen, name = "RecordWriter", module = "tensorfleet._native")]
struct PyRecordWriter {
    path: PathBuf,
    writer: Mutex<Option<RecordWriter<BufWriter<File>>>>,
}

impl PyRecordWriter {
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut RecordWriter<BufWriter<File>>) -> std::io::Result<R> + Send,
    ) -> PyResult<R> {
        let done = py.detach(|| self.writer.lock().as_mut().map(work));
        let done = done.ok_or_else(|| PyRuntimeError::new_err("Writer is closed."))?;
        done.map_err(|error| io_status(&self.path, &error)).or_raise(py)
    }
}

#[pymethods]
impl PyRecordWriter {
    /// Makes or empties a file.
    #[new]
    fn new(py: Python<'_>, path: PathBuf, compression: &str) -> PyResult<PyRecordWriter> {
        let compression = Compression::from_name(compression).or_raise(py)?;
        let file =
            py.detach(|| File::create(&path)).map_err(|error| io_status(&path, &error)).or_raise(py)?;
        let writer = RecordWriter::new(BufWriter::new(file), compression);
        Ok(PyRecordWriter { path, writer: Mutex::new(Some(writer)) })
    }

    /// Appends a record.
    fn write(&self, py: Python<'_>, record: &[u8]) -> PyResult<()> {
        self.with(py, |writer| writer.write(record))
    }

    /// Passes on to the file what has been gathered.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, RecordWriter::flush)
    }

    /// Ends the file. A second time does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(writer) = self.writer.lock().take() else { return Ok(()) };
        let ended = py.detach(|| writer.finish().and_then(|output| output.into_inner().map_err(Into::into)));
        ended.map(drop).map_err(|error| io_status(&self.path, &error)).or_raise(py)
    }
}
