//! Checkpoints made by TensorFlow are read, and the same content written gives the same bytes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use half::{bf16, f16};
use num_complex::Complex;
use proptest::prelude::*;
use tensorfleet_core::{Code, DType, Shape, Tensor};
use tensorfleet_files::FileAccess;
use tensorfleet_files::bundle::{BundleReader, BundleWriter, data_path, index_path, merge};
use tensorfleet_files::tensor_slice::{ShapeAndSlice, TensorSlice};

fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name).display().to_string()
}

fn scratch() -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("m").display().to_string();
    (directory, prefix)
}

fn assert_same_files(fixture: &str, written: &str, num_shards: usize) {
    let same = |a: PathBuf, b: PathBuf| {
        assert_eq!(std::fs::read(&a).unwrap(), std::fs::read(b).unwrap(), "{}", a.display());
    };
    for shard in 0..num_shards {
        same(data_path(fixture, shard, num_shards), data_path(written, shard, num_shards));
    }
    same(index_path(fixture), index_path(written));
}

fn write(prefix: &str, tensors: &[(&str, &str, Tensor)]) {
    let mut writer = BundleWriter::create(&FileAccess::EVERYWHERE, prefix).unwrap();
    for (name, spec, tensor) in tensors {
        match *spec {
            "" => writer.add(name, tensor).unwrap(),
            spec => {
                let ShapeAndSlice { full, slice } = ShapeAndSlice::parse(spec).unwrap();
                writer.add_slice(name, &full, &slice, tensor).unwrap();
            }
        }
    }
    writer.finish().unwrap();
}

fn strings(values: &[&[u8]], dims: &[usize]) -> Tensor {
    Tensor::from_strings(values.iter().map(|value| value.to_vec().into()).collect(), dims).unwrap()
}

/// Values 0, 1, 2 … from `start`.
fn counting(start: usize, dims: &[usize]) -> Tensor {
    let count: usize = dims.iter().product();
    let values: Vec<f32> = (start..start + count).map(|value| value as f32).collect();
    Tensor::from_slice(&values, dims).unwrap()
}

/// What the README of the fixtures says of the checkpoint of all dtypes, in the order the saver wrote it.
fn all_dtypes() -> Vec<(&'static str, &'static str, Tensor)> {
    let vector = |values: &[f32]| values.to_vec();
    let half: Vec<f16> = vector(&[1.0, -0.5, 65504.0]).into_iter().map(f16::from_f32).collect();
    let brain: Vec<bf16> = vector(&[1.0, 2.0, -3.0]).into_iter().map(bf16::from_f32).collect();
    let complex = [Complex::new(1.0f32, 2.0), Complex::new(-0.0, -3.5)];
    vec![
        ("bf16", "", Tensor::vector(&brain).unwrap()),
        ("bytes", "", Tensor::vector(&[0u8, 127, 255]).unwrap()),
        ("cplx", "", Tensor::vector(&complex).unwrap()),
        ("emb/table", "5 3 0,3:0,3", counting(0, &[3, 3])),
        ("emb/table", "5 3 3,2:0,3", counting(9, &[2, 3])),
        ("empty", "", Tensor::zeros(DType::Float, Shape::new(&[0, 4]).unwrap()).unwrap()),
        ("flags", "", Tensor::vector(&[true, false, true]).unwrap()),
        ("global_step_like", "", Tensor::vector(&[1i64, -1, 1 << 40]).unwrap()),
        ("half", "", Tensor::vector(&half).unwrap()),
        ("layer/b", "", Tensor::vector(&[0.1f64, 0.2]).unwrap()),
        ("layer/w", "", Tensor::from_slice(&[1.5f32, -2.0, 3.25, 0.0, -0.0, 0.001], &[2, 3]).unwrap()),
        ("scalar_i32", "", Tensor::scalar(-7i32)),
        ("words", "", strings(&[b"alpha", b"", b"\x00\xff", &[b'x'; 200]], &[2, 2])),
    ]
}

#[test]
fn every_dtype_of_a_real_checkpoint_is_read() {
    let reader = BundleReader::open(&FileAccess::EVERYWHERE, &fixture("ckpt/model-7")).unwrap();
    for (name, spec, tensor) in all_dtypes() {
        if spec.is_empty() {
            assert_eq!(reader.read(name).unwrap(), tensor, "{name}");
        }
    }
    assert_eq!(reader.read("emb/table").unwrap(), counting(0, &[5, 3]));
    assert_eq!(reader.tensors().unwrap().len(), 12);
    assert!(reader.contains("half") && !reader.contains("") && !reader.contains("hal"));
}

#[test]
fn the_same_content_gives_the_same_bytes() {
    let (_directory, prefix) = scratch();
    write(&prefix, &all_dtypes());
    assert_same_files(&fixture("ckpt/model-7"), &prefix, 1);

    write(&prefix, &[("a", "", counting(1, &[2])), ("b", "", strings(&[b"hi", b"you"], &[2]))]);
    assert_same_files(&fixture("bundle_tiny/t"), &prefix, 1);

    write(&prefix, &[("p", "3 2 0,2:0,2", counting(0, &[2, 2])), ("p", "3 2 2,1:0,2", counting(4, &[1, 2]))]);
    assert_same_files(&fixture("bundle_slice/t"), &prefix, 1);

    let names: Vec<String> = (0..40).map(|number| format!("scope/var_{number:02}")).collect();
    let scalar = |number: usize| Tensor::scalar(number as f32);
    let many: Vec<_> = names.iter().enumerate().map(|(i, name)| (&name[..], "", scalar(i))).collect();
    write(&prefix, &many);
    assert_same_files(&fixture("bundle_many/m"), &prefix, 1);
}

#[test]
fn merging_shards_gives_the_bytes_of_a_sharded_save() {
    let (directory, prefix) = scratch();
    let part = |shard: usize| directory.path().join(format!("part-{shard}")).display().to_string();
    write(&part(0), &[("a", "", counting(1, &[3])), ("p/t", "4 2 0,2:0,2", counting(0, &[2, 2]))]);
    let b = Tensor::from_slice(&[4i32, 5], &[1, 2]).unwrap();
    write(&part(1), &[("b", "", b.clone()), ("p/t", "4 2 2,2:0,2", counting(4, &[2, 2]))]);
    merge(&FileAccess::EVERYWHERE, &[&part(0), &part(1)], &prefix, false).unwrap();
    assert_same_files(&fixture("ckpt_sharded/shard-100"), &prefix, 2);
    let reader = BundleReader::open(&FileAccess::EVERYWHERE, &prefix).unwrap();
    assert_eq!(reader.read("p/t").unwrap(), counting(0, &[4, 2]));
    assert_eq!(reader.read("b").unwrap(), b);
    assert_eq!(directory.path().read_dir().unwrap().count(), 3);
}

#[test]
fn merging_what_is_not_there_or_there_twice_fails_and_keeps_the_sources() {
    let (directory, prefix) = scratch();
    let part = |shard: usize| directory.path().join(format!("part-{shard}")).display().to_string();
    write(&part(0), &[("a", "", counting(1, &[3]))]);
    let missing = merge(&FileAccess::EVERYWHERE, &[&part(0), &part(1)], &prefix, false).unwrap_err();
    assert_eq!(missing.code(), Code::NotFound);
    write(&part(1), &[("a", "", counting(1, &[3]))]);
    let twice = merge(&FileAccess::EVERYWHERE, &[&part(0), &part(1)], &prefix, false).unwrap_err();
    assert_eq!(twice.code(), Code::InvalidArgument);
    assert_eq!(
        BundleReader::open(&FileAccess::EVERYWHERE, &part(0)).unwrap().read("a").unwrap(),
        counting(1, &[3])
    );
    std::fs::remove_file(index_path(&part(1))).unwrap();
    merge(&FileAccess::EVERYWHERE, &[&part(0), &part(1)], &prefix, true).unwrap();
    assert!(BundleReader::open(&FileAccess::EVERYWHERE, &prefix).unwrap().contains("a"));
}

#[test]
fn any_part_is_read_from_any_parts() {
    let slice = |spec: &str| TensorSlice::parse(spec).unwrap();
    let parts = BundleReader::open(&FileAccess::EVERYWHERE, &fixture("ckpt/model-7")).unwrap();
    assert_eq!(parts.read_slice("emb/table", &slice("2,2:-")).unwrap(), counting(6, &[2, 3]));
    let one = parts.read_slice("emb/table", &slice("3,1:1,1")).unwrap();
    assert_eq!(one.as_slice::<f32>().unwrap(), [10.0]);
    let words = parts.read_slice("words", &slice("1,1:0,1")).unwrap();
    assert_eq!(words.as_strings().unwrap()[0], &b"\x00\xff"[..]);
    let outside = parts.read_slice("emb/table", &slice("4,2:-")).unwrap_err();
    assert_eq!(outside.code(), Code::InvalidArgument);

    let (_directory, prefix) = scratch();
    write(&prefix, &[("p", "4 0,2", counting(0, &[2]))]);
    let reader = BundleReader::open(&FileAccess::EVERYWHERE, &prefix).unwrap();
    assert_eq!(reader.read_slice("p", &slice("0,1")).unwrap(), counting(0, &[1]));
    assert_eq!(reader.read("p").unwrap_err().code(), Code::InvalidArgument);
}

#[test]
fn damage_has_tensorflows_codes() {
    let (_directory, prefix) = scratch();
    let save = || write(&prefix, &[("a", "", counting(1, &[100])), ("s", "", strings(&[b"x", b"yz"], &[2]))]);
    let code = |name: &str| {
        let read = BundleReader::open(&FileAccess::EVERYWHERE, &prefix).and_then(|reader| reader.read(name));
        read.unwrap_err().code()
    };
    assert_eq!(code("a"), Code::NotFound);
    save();
    assert_eq!(code("b"), Code::NotFound);

    let data = data_path(&prefix, 0, 1);
    let mut bytes = std::fs::read(&data).unwrap();
    bytes[7] ^= 1;
    bytes[401] ^= 1;
    std::fs::write(&data, &bytes).unwrap();
    assert_eq!(code("a"), Code::DataLoss);
    assert_eq!(code("s"), Code::DataLoss);
    std::fs::write(&data, &bytes[..200]).unwrap();
    assert_eq!(code("a"), Code::OutOfRange);
    std::fs::remove_file(&data).unwrap();
    assert_eq!(code("a"), Code::NotFound);

    save();
    let index = std::fs::read(index_path(&prefix)).unwrap();
    std::fs::write(index_path(&prefix), &index[..index.len() - 1]).unwrap();
    assert_eq!(code("a"), Code::DataLoss);
    std::fs::write(index_path(&prefix), &index[..10]).unwrap();
    assert_eq!(code("a"), Code::DataLoss);
}

#[test]
fn what_cannot_be_saved_is_refused_and_leaves_nothing_behind() {
    let (directory, prefix) = scratch();
    let mut writer = BundleWriter::create(&FileAccess::EVERYWHERE, &prefix).unwrap();
    writer.add("a", &counting(0, &[2])).unwrap();
    assert_eq!(writer.add("a", &counting(0, &[2])).unwrap_err().code(), Code::InvalidArgument);
    let ShapeAndSlice { full, slice } = ShapeAndSlice::parse("4 0,2").unwrap();
    assert_eq!(
        writer.add_slice("p", &full, &slice, &counting(0, &[3])).unwrap_err().code(),
        Code::InvalidArgument
    );
    assert_eq!(
        writer.add_slice("a", &full, &slice, &counting(0, &[2])).unwrap_err().code(),
        Code::InvalidArgument
    );
    drop(writer);
    assert_eq!(directory.path().read_dir().unwrap().count(), 0);
}

#[test]
fn one_level_of_directory_is_made() {
    let (directory, _) = scratch();
    let below = |name: &str| directory.path().join(name).display().to_string();
    write(&below("new/m"), &[("a", "", counting(0, &[1]))]);
    assert!(BundleReader::open(&FileAccess::EVERYWHERE, &below("new/m")).unwrap().contains("a"));
    assert_eq!(
        BundleWriter::create(&FileAccess::EVERYWHERE, &below("x/y/m")).map(|_| ()).unwrap_err().code(),
        Code::NotFound
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn mutated_checkpoints_never_panic(at in any::<prop::sample::Index>(), byte: u8, in_index: bool, cut in any::<Option<prop::sample::Index>>()) {
        let (directory, prefix) = scratch();
        let source = fixture("ckpt/model-7");
        let (index, data) = (index_path(&prefix), data_path(&prefix, 0, 1));
        std::fs::copy(index_path(&source), &index).unwrap();
        std::fs::copy(data_path(&source, 0, 1), &data).unwrap();
        let target = if in_index { &index } else { &data };
        let mut bytes = std::fs::read(target).unwrap();
        let position = at.index(bytes.len());
        bytes[position] = byte;
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        std::fs::remove_file(target).unwrap();
        std::fs::write(target, bytes).unwrap();
        if let Ok(reader) = BundleReader::open(&FileAccess::EVERYWHERE, &prefix) {
            for (name, _, _) in reader.tensors().unwrap_or_default() {
                let _ = reader.read(&name);
            }
        }
        drop(directory);
    }
}
