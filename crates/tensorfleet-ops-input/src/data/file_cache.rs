//! `cache(filename)`: the first walk writes what it sees to files, later ones read them.
//!
//! The files are a checkpoint, as in TensorFlow, each component of each element under its own name; either side reads
//! what the other wrote. They get their names when the walk has reached its end and all of it is on the disk. A walk that
//! is given up leaves nothing, and two walks at a time write two caches, of which the later one stays: the names it takes
//! over stand for the same elements.

use std::sync::Arc;

use tensorfleet_core::{Code, Result, ensure};
use tensorfleet_files::bundle::{BundleReader, BundleWriter, index_path};

use super::dataset::{Cardinality, Dataset, DatasetIterator, Element, ElementSpec, Nesting};
use tensorfleet_kernel::file_access::FileAccess;
use tensorfleet_kernel::functions::CallContext;

pub(super) struct FileCached {
    spec: ElementSpec,
    input: Arc<dyn Dataset>,
    prefix: String,
    access: FileAccess,
}

impl FileCached {
    pub(super) fn new(
        spec: ElementSpec,
        input: Arc<dyn Dataset>,
        prefix: String,
        access: FileAccess,
    ) -> Result<FileCached> {
        access.check_prefix(&prefix)?;
        Ok(FileCached { spec, input, prefix, access })
    }
}

/// The name of a component, padded as TensorFlow pads it, so that names sort like numbers.
fn name(element: u64, component: usize, components: usize) -> String {
    let width = components.to_string().len();
    format!("{element:>7}_{component:>width$}")
}

impl Dataset for FileCached {
    fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    fn iterate(self: Arc<Self>, nesting: Nesting) -> Result<Box<dyn DatasetIterator>> {
        // A walk may come long after the dataset was made, and the path may lead elsewhere by then.
        self.access.check_prefix(&self.prefix)?;
        if self.access.exists(index_path(&self.prefix)) {
            let reader = BundleReader::open(&self.access, &self.prefix)?;
            return Ok(Box::new(Reading { dataset: self, reader, next: 0 }));
        }
        let input = self.input.clone().iterate(nesting.inner()?)?;
        let writer = BundleWriter::create(&self.access, &self.prefix)?;
        Ok(Box::new(Writing { input, writer: Some(writer), next: 0 }))
    }

    fn cardinality(&self) -> Cardinality {
        self.input.cardinality()
    }
}

struct Writing {
    input: Box<dyn DatasetIterator>,
    /// Gone once the cache is complete, or has failed.
    writer: Option<BundleWriter>,
    next: u64,
}

impl DatasetIterator for Writing {
    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        let element = match self.input.next(ctx) {
            Ok(element) => element,
            // An element is missing, so these files will never be complete.
            Err(status) => {
                if status.code() != Code::Cancelled {
                    self.writer = None;
                }
                return Err(status);
            }
        };
        let Some(element) = element else {
            if let Some(writer) = self.writer.take() {
                writer.finish()?;
            }
            return Ok(None);
        };
        if let Some(mut writer) = self.writer.take() {
            for (component, tensor) in element.iter().enumerate() {
                writer.add(&name(self.next, component, element.len()), tensor)?;
            }
            self.writer = Some(writer);
        }
        self.next += 1;
        Ok(Some(element))
    }

    fn is_ready(&self) -> bool {
        false
    }
}

struct Reading {
    dataset: Arc<FileCached>,
    reader: BundleReader,
    next: u64,
}

impl DatasetIterator for Reading {
    fn next(&mut self, _: &CallContext) -> Result<Option<Element>> {
        let components = self.dataset.spec.dtypes.len();
        let names: Vec<String> = (0..components).map(|index| name(self.next, index, components)).collect();
        if !names.iter().any(|name| self.reader.contains(name)) {
            ensure!(
                self.next > 0 || self.reader.tensors()?.is_empty(),
                DataLoss,
                "the files of cache {} hold something else",
                self.dataset.prefix
            );
            return Ok(None);
        }
        let element: Element = names.iter().map(|name| self.reader.read(name)).collect::<Result<_>>()?;
        self.dataset.spec.check_element(&element)?;
        self.next += 1;
        Ok(Some(element))
    }

    fn is_ready(&self) -> bool {
        false
    }
}
