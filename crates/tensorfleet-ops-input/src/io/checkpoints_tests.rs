//! Checkpoint ops: what is saved is restored, and damage is reported.

use tensorfleet_core::{Code, DType, Tensor};

use crate::testing::{TestOp, test_op};

fn strings(values: &[&str]) -> Tensor {
    Tensor::from_strings(values.iter().map(|value| value.to_string().into()).collect(), &[values.len()])
        .unwrap()
}

fn save_op(prefix: &str, tensors: &[(&str, &str, Tensor)]) -> TestOp {
    let dtypes: Vec<DType> = tensors.iter().map(|(_, _, tensor)| tensor.dtype()).collect();
    let names: Vec<&str> = tensors.iter().map(|(name, _, _)| *name).collect();
    let specs: Vec<&str> = tensors.iter().map(|(_, spec, _)| *spec).collect();
    let op = test_op("SaveV2").attr("dtypes", dtypes).input(Tensor::string(prefix.to_string()));
    let op = op.input(strings(&names)).input(strings(&specs));
    tensors.iter().fold(op, |op, (_, _, tensor)| op.input(tensor.clone()))
}

fn restore_op(prefix: &str, wanted: &[(&str, &str, DType)]) -> TestOp {
    let dtypes: Vec<DType> = wanted.iter().map(|(_, _, dtype)| *dtype).collect();
    let names: Vec<&str> = wanted.iter().map(|(name, _, _)| *name).collect();
    let specs: Vec<&str> = wanted.iter().map(|(_, spec, _)| *spec).collect();
    let op = test_op("RestoreV2").attr("dtypes", dtypes).input(Tensor::string(prefix.to_string()));
    op.input(strings(&names)).input(strings(&specs))
}

fn code(op: TestOp) -> Code {
    op.run().unwrap_err().code()
}

#[test]
fn what_is_saved_is_restored_whole_or_in_parts() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("new/model").display().to_string();
    let big = Tensor::vector(&vec![0.5f64; 1 << 20]).unwrap();
    let parts = [
        ("flags", "", Tensor::vector(&[true, false]).unwrap()),
        ("table", "3 2 0,2:0,2", Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap()),
        ("table", "3 2 2,1:0,2", Tensor::from_slice(&[5.0f32, 6.0], &[1, 2]).unwrap()),
        ("words", "", strings(&["a", ""])),
        ("big", "", big.clone()),
    ];
    save_op(&prefix, &parts).run().unwrap();
    let wanted = [
        ("table", "", DType::Float),
        ("table", "3 2 1,2:1,1", DType::Float),
        ("words", "", DType::String),
        ("flags", "", DType::Bool),
        ("big", "", DType::Double),
    ];
    let restored = restore_op(&prefix, &wanted).run().unwrap();
    assert_eq!(restored[0].as_slice::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(restored[1].as_slice::<f32>().unwrap(), [4.0, 6.0]);
    assert_eq!(restored[2], parts[3].2);
    assert_eq!(restored[3], parts[0].2);
    assert_eq!(restored[4], big);
}

#[test]
fn restoring_what_is_not_there_is_not_found_and_another_dtype_is_invalid() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("m").display().to_string();
    assert_eq!(code(restore_op(&prefix, &[("a", "", DType::Float)])), Code::NotFound);
    save_op(&prefix, &[("a", "", Tensor::vector(&[1.0f32, 2.0]).unwrap())]).run().unwrap();
    let missing = restore_op(&prefix, &[("b", "", DType::Float)]).run().unwrap_err();
    assert_eq!((missing.code(), missing.text()), (Code::NotFound, "Key b not found in checkpoint"));
    assert_eq!(code(restore_op(&prefix, &[("a", "", DType::Int32)])), Code::InvalidArgument);
    assert_eq!(code(restore_op(&prefix, &[("a", "3 0,1", DType::Float)])), Code::InvalidArgument);
    assert_eq!(code(restore_op(&prefix, &[("a", "2 0,9", DType::Float)])), Code::InvalidArgument);
}

#[test]
fn saving_with_names_or_slices_that_do_not_fit_is_invalid() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("m").display().to_string();
    let value = || Tensor::vector(&[1.0f32, 2.0]).unwrap();
    assert_eq!(code(save_op(&prefix, &[("a", "4 0,3", value())])), Code::InvalidArgument);
    assert_eq!(code(save_op(&prefix, &[("a", "nonsense", value())])), Code::InvalidArgument);
    assert_eq!(code(save_op(&prefix, &[("a", "", value()), ("a", "", value())])), Code::InvalidArgument);
    let op = test_op("SaveV2").attr("dtypes", vec![DType::Float]).input(Tensor::string(prefix.clone()));
    let op = op.input(strings(&["a", "b"])).input(strings(&[""])).input(value());
    assert_eq!(code(op), Code::InvalidArgument);
    assert_eq!(directory.path().read_dir().unwrap().count(), 0);
}

#[test]
fn merged_parts_are_one_checkpoint_and_their_directory_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let below = |name: &str| directory.path().join(name).display().to_string();
    let parts = [below("m_temp/part-00000-of-00002"), below("m_temp/part-00001-of-00002")];
    save_op(&parts[0], &[("a", "", Tensor::scalar(1i32))]).run().unwrap();
    save_op(&parts[1], &[("b", "", Tensor::scalar(2i32))]).run().unwrap();
    let merge = test_op("MergeV2Checkpoints").input(strings(&[&parts[0], &parts[1]]));
    merge.input(Tensor::string(below("m"))).run().unwrap();
    let restored =
        restore_op(&below("m"), &[("b", "", DType::Int32), ("a", "", DType::Int32)]).run().unwrap();
    assert_eq!(restored, [Tensor::scalar(2i32), Tensor::scalar(1i32)]);
    assert!(!directory.path().join("m_temp").exists());
}

#[test]
fn shards_are_named_with_five_digits() {
    let number = |value: i32| Tensor::scalar(value);
    let op = test_op("ShardedFilename").input(Tensor::string("model")).input(number(2)).input(number(17));
    assert_eq!(op.run_one().unwrap(), Tensor::string("model-00002-of-00017"));
    let op = test_op("ShardedFilespec").input(Tensor::string("model")).input(number(17));
    assert_eq!(op.run_one().unwrap(), Tensor::string("model-?????-of-00017"));
}
