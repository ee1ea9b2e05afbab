//! Checkpoints of TensorFlow's first format: one table, in which values stand themselves.
//!
//! The empty key has what is in the file: names, dtypes, full shapes, and which slices of each are there. Every slice is
//! an entry of its own, under the key that slices of the second format have as well, with its numbers in the typed
//! lists of a `TensorProto` that says neither dtype nor shape. A checkpoint may be divided over files, whose names a
//! pattern matches.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use prost::Message;
use tensorfleet_core::{DType, Result, Shape, Status, Tensor, bail, ensure};
use tensorfleet_proto::tensorflow::{
    SavedSlice, SavedSliceMeta, SavedTensorSliceMeta, SavedTensorSlices, TensorProto, VersionDef,
};

use crate::atomic_file::AtomicFile;
use crate::file_access::FileAccess;
use crate::ordered_code::slice_key;
use crate::table::{self, TableWriter};
use crate::tensor_slice::{Assembly, TensorSlice};

/// The version of the format, which is the only one.
const VERSION: i32 = 1;
/// A value has to fit into a message.
const MAX_VALUE_BYTES: usize = i32::MAX as usize;

/// A checkpoint about to be written.
#[derive(Default)]
pub struct SliceFileWriter {
    tensors: BTreeMap<String, (DType, Shape, Vec<TensorSlice>)>,
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl SliceFileWriter {
    /// Adds a slice of a tensor whose full shape is `full`.
    pub fn add(&mut self, name: &str, full: &Shape, slice: &TensorSlice, value: &Tensor) -> Result<()> {
        let region = slice.within(full)?;
        ensure!(
            region.shape()? == *value.shape(),
            InvalidArgument,
            "Slice {slice} of shape {full} does not have the shape {} of tensor {name}",
            value.shape()
        );
        let data = typed_lists(value)?;
        let tensor = self.tensors.entry(name.to_string());
        let (dtype, shape, slices) = tensor.or_insert_with(|| (value.dtype(), full.clone(), Vec::new()));
        ensure!(
            *dtype == value.dtype() && shape == full,
            InvalidArgument,
            "Mismatching types or shapes of slices of tensor {name}: {dtype} {shape} and {} {full}",
            value.dtype()
        );
        let data = SavedSlice { name: name.to_string(), slice: Some(slice.to_proto()), data: Some(data) };
        let entry = SavedTensorSlices { meta: None, data: Some(data) };
        ensure!(
            entry.encoded_len() < MAX_VALUE_BYTES,
            InvalidArgument,
            "Tensor {name} is too large for the first format of checkpoints: use the second"
        );
        let old = self.entries.insert(slice_key(name, slice), entry.encode_to_vec());
        ensure!(old.is_none(), InvalidArgument, "Slice {slice} of tensor {name} is saved twice");
        slices.push(slice.clone());
        Ok(())
    }

    /// Writes the file; it is there whole or not at all.
    pub fn finish(self, access: &FileAccess, path: &str) -> Result<()> {
        let tensor = self.tensors.iter().map(|(name, (dtype, shape, slices))| SavedSliceMeta {
            name: name.clone(),
            shape: Some(shape.to_proto()),
            r#type: dtype.number(),
            slice: slices.iter().map(TensorSlice::to_proto).collect(),
        });
        let versions = VersionDef { producer: VERSION, ..Default::default() };
        let meta = SavedTensorSliceMeta { tensor: tensor.collect(), versions: Some(versions) };
        let mut table = TableWriter::default();
        table.add(b"", &SavedTensorSlices { meta: Some(meta), data: None }.encode_to_vec())?;
        for (key, value) in &self.entries {
            table.add(key, value)?;
        }
        let mut file = AtomicFile::create(access, path)?;
        file.write(&table.finish())?;
        file.commit_durably()
    }
}

/// A checkpoint that was opened.
#[derive(Debug)]
pub struct SliceFiles {
    tensors: BTreeMap<String, Stored>,
}

#[derive(Debug)]
struct Stored {
    dtype: DType,
    shape: Shape,
    slices: Vec<(TensorSlice, Bytes)>,
}

impl SliceFiles {
    /// Opens a checkpoint that is divided over these files.
    pub fn open<P: AsRef<Path>>(access: &FileAccess, paths: &[P]) -> Result<SliceFiles> {
        let mut files = SliceFiles { tensors: BTreeMap::new() };
        for path in paths {
            let path = path.as_ref();
            files
                .add(access.read(path)?.into())
                .map_err(|status| status.context(format!("Unable to open table file {}", path.display())))?;
        }
        Ok(files)
    }

    fn add(&mut self, file: Bytes) -> Result<()> {
        let entries: BTreeMap<Vec<u8>, Bytes> =
            table::read(&file)?.into_iter().map(|entry| (entry.key, entry.value)).collect();
        let meta =
            entries.get(&b""[..]).ok_or_else(|| Status::data_loss("the file says not what is in it"))?;
        let meta = decode(meta)?.meta.ok_or_else(|| Status::data_loss("the file says not what is in it"))?;
        let needs = meta.versions.as_ref().map_or(0, |versions| versions.min_consumer);
        ensure!(
            needs <= VERSION,
            InvalidArgument,
            "the checkpoint was made for readers of version {needs} or newer; this one has version {VERSION}"
        );
        for tensor in meta.tensor {
            let dtype = DType::from_number(tensor.r#type)?;
            let shape = tensor.shape.as_ref().map_or(Ok(Shape::scalar()), Shape::from_proto)?;
            let stored = self.tensors.entry(tensor.name.clone());
            let stored = stored.or_insert_with(|| Stored { dtype, shape: shape.clone(), slices: Vec::new() });
            ensure!(
                stored.dtype == dtype && stored.shape == shape,
                InvalidArgument,
                "the files disagree on dtype or shape of tensor {}",
                tensor.name
            );
            for proto in &tensor.slice {
                let slice = TensorSlice::from_proto(proto)?;
                let value = entries.get(&slice_key(&tensor.name, &slice)).ok_or_else(|| {
                    Status::data_loss(format!(
                        "Slice {slice} of tensor {} is listed, but not there",
                        tensor.name
                    ))
                })?;
                stored.slices.push((slice, value.clone()));
            }
        }
        Ok(())
    }

    fn stored(&self, name: &str) -> Result<&Stored> {
        self.tensors
            .get(name)
            .ok_or_else(|| Status::not_found(format!("Tensor name \"{name}\" not found in checkpoint files")))
    }

    /// The dtype and full shape of a tensor.
    pub fn dtype_and_shape(&self, name: &str) -> Result<(DType, Shape)> {
        self.stored(name).map(|stored| (stored.dtype, stored.shape.clone()))
    }

    /// The value of a tensor, put together from its slices.
    pub fn read(&self, name: &str) -> Result<Tensor> {
        let rank = self.stored(name)?.shape.rank();
        self.read_slice(name, &TensorSlice::full(rank))
    }

    /// A part of a tensor, whether it was saved whole or in other parts.
    pub fn read_slice(&self, name: &str, slice: &TensorSlice) -> Result<Tensor> {
        let Stored { dtype, shape, slices } = self.stored(name)?;
        let wanted = slice.within(shape)?;
        let mut assembly = Assembly::new(*dtype, wanted.clone())?;
        for (slice, entry) in slices {
            let from = slice.within(shape)?;
            if from.intersect(&wanted).is_some() {
                let data = decode(entry)?.data.and_then(|data| data.data).unwrap_or_default();
                assembly.add(&from_typed_lists(data, *dtype, &from.shape()?)?, &from)?;
            }
        }
        assembly.finish()?.ok_or_else(|| {
            Status::not_found(format!("the checkpoint does not have all of slice {slice} of tensor {name}"))
        })
    }
}

fn decode(entry: &Bytes) -> Result<SavedTensorSlices> {
    SavedTensorSlices::decode(entry.clone())
        .map_err(|error| Status::data_loss(format!("an entry of the checkpoint is damaged: {error}")))
}

/// The elements in the list of their type, as the format wants them.
fn typed_lists(tensor: &Tensor) -> Result<TensorProto> {
    let mut proto = TensorProto::default();
    macro_rules! ints {
        ($rust:ty) => {
            proto.int_val = tensor.as_slice::<$rust>()?.iter().map(|&value| value as i32).collect()
        };
    }
    match tensor.dtype().storage() {
        DType::Float => proto.float_val = tensor.as_slice::<f32>()?.to_vec(),
        DType::Double => proto.double_val = tensor.as_slice::<f64>()?.to_vec(),
        DType::Int64 => proto.int64_val = tensor.as_slice::<i64>()?.to_vec(),
        DType::Bool => proto.bool_val = tensor.as_slice::<bool>()?.to_vec(),
        DType::Int32 => ints!(i32),
        DType::Int16 => ints!(i16),
        DType::Int8 => ints!(i8),
        DType::UInt8 => ints!(u8),
        DType::UInt16 => ints!(u16),
        DType::Half => {
            proto.half_val =
                tensor.as_slice::<half::f16>()?.iter().map(|value| value.to_bits() as i32).collect();
        }
        DType::Complex64 => {
            let values = tensor.as_slice::<num_complex::Complex<f32>>()?;
            proto.scomplex_val = values.iter().flat_map(|value| [value.re, value.im]).collect();
        }
        DType::String => proto.string_val = tensor.as_strings()?.to_vec(),
        other => bail!(
            Unimplemented,
            "the first format of checkpoints has no {other} tensors: use write_version=tf.train.SaverDef.V2"
        ),
    }
    Ok(proto)
}

fn from_typed_lists(mut proto: TensorProto, dtype: DType, shape: &Shape) -> Result<Tensor> {
    let count = match dtype.storage() {
        DType::Float => proto.float_val.len(),
        DType::Double => proto.double_val.len(),
        DType::Int64 => proto.int64_val.len(),
        DType::Bool => proto.bool_val.len(),
        DType::Int32 | DType::Int16 | DType::Int8 | DType::UInt8 | DType::UInt16 => proto.int_val.len(),
        DType::Half => proto.half_val.len(),
        DType::Complex64 => proto.scomplex_val.len() / 2,
        DType::String => proto.string_val.len(),
        other => bail!(Unimplemented, "{other} tensors in checkpoints of the first format are not read"),
    };
    ensure!(
        count == shape.num_elements(),
        DataLoss,
        "a slice of shape {shape} has {count} elements in the checkpoint"
    );
    proto.dtype = dtype.number();
    proto.tensor_shape = Some(shape.to_proto());
    proto.tensor_content = Bytes::new();
    Tensor::from_proto(&proto)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor_slice::ShapeAndSlice;
    use tensorfleet_core::Code;

    /// What a `Saver` of TensorFlow 2.21 with `write_version=V1` writes for v = [[1, 2], [3, 4]] and w = 5.
    const WRITTEN: &[u8] = b"\x00\x00(\n&\n\x15\n\x01v\x12\x08\x12\x02\x08\x02\x12\x02\x08\x02\x18\x01\"\x04\n\x00\n\
        \x00\n\t\n\x01w\x12\x00\x18\x03\"\x00\x12\x02\x08\x01\x00\n\x1f\x00v\x00\x01\x01\x02\x80\x7f\x80\x7f\x12\x1d\n\
        \x01v\x12\x04\n\x00\n\x00\x1a\x12*\x10\x00\x00\x80?\x00\x00\x00@\x00\x00@@\x00\x00\x80@\x01\x04\x0cw\x00\x01\
        \x00\x12\n\n\x01w\x12\x00\x1a\x03:\x01\x05\x00\x00\x00\x00\x01\x00\x00\x00\x00\xf7\x90\xae\xbd\x00\x00\x00\x00\
        \x01\x00\x00\x00\x00\xc0\xf2\xa1\xb0\x00\x01\x02\x01\x00r\x00\x00\x00\x00\x01\x00\x00\x00\x008\x90{\x88w\x08\
        \x84\x01\x0e\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\
        \x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00W\xfb\x80\x8b$uG\xdb";

    fn files(bytes: &[u8]) -> Result<SliceFiles> {
        let mut files = SliceFiles { tensors: BTreeMap::new() };
        files.add(Bytes::copy_from_slice(bytes)).map(|()| files)
    }

    #[test]
    fn what_tensorflow_wrote_is_read_and_what_is_written_is_the_same() {
        let read = files(WRITTEN).unwrap();
        assert_eq!(read.dtype_and_shape("v").unwrap(), (DType::Float, Shape::new(&[2, 2]).unwrap()));
        assert_eq!(read.read("v").unwrap().as_slice::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(read.read("w").unwrap().to_scalar::<i32>().unwrap(), 5);
        let column = ShapeAndSlice::parse("2 2 -:1,1").unwrap().slice;
        assert_eq!(read.read_slice("v", &column).unwrap().as_slice::<f32>().unwrap(), [2.0, 4.0]);
        assert_eq!(read.read("x").unwrap_err().code(), Code::NotFound);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("written");
        let mut writer = SliceFileWriter::default();
        for name in ["w", "v"] {
            let value = read.read(name).unwrap();
            writer.add(name, value.shape(), &TensorSlice::full(value.shape().rank()), &value).unwrap();
        }
        writer.finish(&FileAccess::EVERYWHERE, path.to_str().unwrap()).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), WRITTEN);
    }

    #[test]
    fn slices_in_several_files_are_put_together_and_gaps_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let paths: Vec<_> = (0..2).map(|part| directory.path().join(format!("part{part}"))).collect();
        for (part, path) in paths.iter().enumerate() {
            let spec = ShapeAndSlice::parse(&format!("2 3 {part},1:-")).unwrap();
            let row = Tensor::from_slice(&[part as f64, 7.0, 8.0], &[1, 3]).unwrap();
            let mut writer = SliceFileWriter::default();
            writer.add("x", &spec.full, &spec.slice, &row).unwrap();
            assert!(writer.add("x", &spec.full, &spec.slice, &row).is_err(), "a slice twice");
            writer.finish(&FileAccess::EVERYWHERE, path.to_str().unwrap()).unwrap();
        }
        let whole = SliceFiles::open(&FileAccess::EVERYWHERE, &paths).unwrap().read("x").unwrap();
        assert_eq!(whole.as_slice::<f64>().unwrap(), [0.0, 7.0, 8.0, 1.0, 7.0, 8.0]);
        assert!(SliceFiles::open(&FileAccess::EVERYWHERE, &paths[..1]).unwrap().read("x").is_err());
    }

    #[test]
    fn every_dtype_of_the_format_comes_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("all");
        let mut writer = SliceFileWriter::default();
        let mut values = vec![
            Tensor::vector(&[1.5f64, f64::NAN]).unwrap(),
            Tensor::vector(&[i64::MIN, 1]).unwrap(),
            Tensor::vector(&[true, false]).unwrap(),
            Tensor::vector(&[-3i16, 4]).unwrap(),
            Tensor::vector(&[-3i8, 4]).unwrap(),
            Tensor::vector(&[200u8, 4]).unwrap(),
            Tensor::vector(&[half::f16::from_f32(-1.5)]).unwrap(),
            Tensor::vector(&[num_complex::Complex::new(1.0f32, -2.0)]).unwrap(),
            Tensor::from_strings(vec!["a".into(), "".into()], &[2]).unwrap(),
        ];
        values.push(Tensor::zeros(DType::Float, Shape::new(&[0, 3]).unwrap()).unwrap());
        for (index, value) in values.iter().enumerate() {
            let slice = TensorSlice::full(value.shape().rank());
            writer.add(&format!("t{index}"), value.shape(), &slice, value).unwrap();
        }
        let strange = Tensor::vector(&[1u64]).unwrap();
        let refused = writer.add("u", strange.shape(), &TensorSlice::full(1), &strange);
        assert_eq!(refused.unwrap_err().code(), Code::Unimplemented);
        writer.finish(&FileAccess::EVERYWHERE, path.to_str().unwrap()).unwrap();
        let read = SliceFiles::open(&FileAccess::EVERYWHERE, &[path]).unwrap();
        for (index, value) in values.iter().enumerate() {
            assert_eq!(read.read(&format!("t{index}")).unwrap(), *value);
        }
    }

    #[test]
    fn cut_and_changed_files_are_errors() {
        for len in 0..WRITTEN.len() {
            assert!(files(&WRITTEN[..len]).is_err(), "{len} bytes");
        }
        for at in 0..WRITTEN.len() {
            let mut bytes = WRITTEN.to_vec();
            bytes[at] ^= 0x41;
            // Padding of the footer may change without harm; anything else is noticed, at the latest when it is read.
            if let Ok(files) = files(&bytes) {
                let _ = (files.read("v"), files.read("w"));
            }
        }
    }
}
