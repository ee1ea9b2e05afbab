//! Datasets made by their ops and walked along, without a graph.

use std::sync::Arc;

use tensorfleet_core::{Code, DType, PartialShape, Result, Status, Tensor};

use super::dataset::{Element, Nesting, from_tensor};
use crate::testing::{TestOp, test_op, test_step};
use tensorfleet_kernel::functions::CallContext;

fn op(name: &str, dtypes: &[DType], shapes: &[PartialShape]) -> TestOp {
    test_op(name).attr("output_types", dtypes.to_vec()).attr("output_shapes", shapes.to_vec())
}

fn int64_op(name: &str) -> TestOp {
    op(name, &[DType::Int64], &[PartialShape::unknown()])
}

fn range(count: i64) -> Tensor {
    let op = int64_op("RangeDataset").input(Tensor::scalar(0i64)).input(Tensor::scalar(count));
    op.input(Tensor::scalar(1i64)).run_one().unwrap()
}

/// A dataset on `input` with one number as argument.
fn with_number(name: &str, input: Tensor, number: i64) -> Result<Tensor> {
    int64_op(name).input(input).input(Tensor::scalar(number)).run_one()
}

fn walk(dataset: &Tensor) -> Result<Vec<Element>> {
    let context = CallContext::of_step(&test_step());
    let mut iterator = from_tensor(dataset)?.iterate(Nesting::default())?;
    let mut elements = Vec::new();
    while let Some(element) = iterator.next(&context)? {
        elements.push(element);
    }
    assert!(iterator.next(&context)?.is_none(), "the end stays the end");
    Ok(elements)
}

fn numbers(dataset: &Tensor) -> Vec<Vec<i64>> {
    let elements = walk(dataset).unwrap();
    elements.iter().map(|element| element[0].as_slice::<i64>().unwrap().to_vec()).collect()
}

fn flat(dataset: &Tensor) -> Vec<i64> {
    numbers(dataset).concat()
}

fn shuffle(input: Tensor, buffer: i64, seed: i64, reshuffles: bool) -> Result<Tensor> {
    int64_op("ShuffleDataset")
        .attr("reshuffle_each_iteration", reshuffles)
        .input(input)
        .input(Tensor::scalar(buffer))
        .input(Tensor::scalar(seed))
        .input(Tensor::scalar(0i64))
        .run_one()
}

#[test]
fn sequences_take_skip_repeat_and_shard() {
    assert_eq!(flat(&with_number("TakeDataset", range(5), 3).unwrap()), [0, 1, 2]);
    assert_eq!(flat(&with_number("TakeDataset", range(5), -1).unwrap()), [0, 1, 2, 3, 4]);
    assert_eq!(flat(&with_number("SkipDataset", range(5), 3).unwrap()), [3, 4]);
    assert_eq!(flat(&with_number("SkipDataset", range(5), -1).unwrap()), []);
    assert_eq!(flat(&with_number("RepeatDataset", range(2), 3).unwrap()), [0, 1, 0, 1, 0, 1]);
    assert_eq!(flat(&with_number("RepeatDataset", range(0), -1).unwrap()), [], "nothing for ever is nothing");
    let shard = |shards: i64, index: i64| {
        let op = int64_op("ShardDataset").input(range(7)).input(Tensor::scalar(shards));
        op.input(Tensor::scalar(index)).run_one()
    };
    assert_eq!(flat(&shard(3, 1).unwrap()), [1, 4]);
    for (shards, index) in [(0, 0), (-1, 0), (3, 3), (3, -1)] {
        assert_eq!(shard(shards, index).unwrap_err().code(), Code::InvalidArgument);
    }
}

#[test]
fn ranges_of_any_extent_have_the_right_length() {
    let extent = |start: i64, stop: i64, step: i64| {
        let op = int64_op("RangeDataset").input(Tensor::scalar(start)).input(Tensor::scalar(stop));
        let dataset = op.input(Tensor::scalar(step)).run_one()?;
        Ok::<_, Status>(from_tensor(&dataset)?.cardinality().number())
    };
    assert_eq!(extent(5, 0, -2), Ok(3));
    assert_eq!(extent(0, 5, -1), Ok(0));
    assert_eq!(extent(i64::MIN, i64::MAX, i64::MAX), Ok(3));
    assert_eq!(extent(0, 1, 0).unwrap_err().code(), Code::InvalidArgument);
}

#[test]
fn batches_hold_elements_of_one_shape() {
    let batch = |size: i64, drops: bool| {
        let op = int64_op("BatchDatasetV2").input(range(5)).input(Tensor::scalar(size));
        op.input(Tensor::scalar(drops)).run_one()
    };
    assert_eq!(numbers(&batch(2, false).unwrap()), [vec![0, 1], vec![2, 3], vec![4]]);
    assert_eq!(numbers(&batch(2, true).unwrap()), [vec![0, 1], vec![2, 3]]);
    assert_eq!(numbers(&batch(i64::MAX, false).unwrap()), [vec![0, 1, 2, 3, 4]]);
    assert_eq!(batch(0, false).unwrap_err().code(), Code::InvalidArgument);
    let uneven = batch(2, false).unwrap();
    let again = int64_op("BatchDatasetV2").input(uneven).input(Tensor::scalar(3i64));
    let again = again.input(Tensor::scalar(false)).run_one().unwrap();
    let status = walk(&again).unwrap_err();
    assert!(status.message().contains("Cannot batch tensors with different shapes"), "{status}");
}

#[test]
fn padding_fills_rows_up_to_the_largest() {
    let pad = |shape: &[i64]| {
        test_op("PaddedBatchDatasetV2")
            .attr("Toutput_types", vec![DType::Int64])
            .attr("output_shapes", vec![PartialShape::unknown()])
            .attr("N", 1i64)
            .input(
                int64_op("BatchDatasetV2")
                    .input(range(5))
                    .input(Tensor::scalar(3i64))
                    .input(Tensor::scalar(false))
                    .run_one()
                    .unwrap(),
            )
            .input(Tensor::scalar(2i64))
            .input(Tensor::vector(shape).unwrap())
            .input(Tensor::scalar(-7i64))
            .input(Tensor::scalar(false))
            .run_one()
    };
    assert_eq!(numbers(&pad(&[-1]).unwrap()), [vec![0, 1, 2, 3, 4, -7]]);
    assert_eq!(numbers(&pad(&[4]).unwrap()), [vec![0, 1, 2, -7, 3, 4, -7, -7]]);
    assert_eq!(walk(&pad(&[2]).unwrap()).unwrap_err().code(), Code::DataLoss);
    assert_eq!(walk(&pad(&[-1, -1]).unwrap()).unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(pad(&[-2]).unwrap_err().code(), Code::InvalidArgument);
}

#[test]
fn a_shuffle_gives_every_element_once_and_repeats_itself_only_if_asked() {
    let sorted = |mut values: Vec<i64>| {
        values.sort_unstable();
        values
    };
    let all: Vec<i64> = (0..20).collect();
    for buffer in [1, 3, 20, 100, -1] {
        let dataset = shuffle(range(20), buffer, 7, true).unwrap();
        let (first, second) = (flat(&dataset), flat(&dataset));
        assert_eq!(sorted(first.clone()), all);
        assert_eq!(first == second, buffer == 1, "each walk has an order of its own");
    }
    let fixed = shuffle(range(20), 20, 7, false).unwrap();
    assert_eq!(flat(&fixed), flat(&fixed));
    assert_eq!(shuffle(range(3), 0, 1, true).unwrap_err().code(), Code::InvalidArgument);
}

#[test]
fn prefetching_changes_nothing_and_ends_with_its_iterator() {
    for size in [-1, 0, 1, 3] {
        assert_eq!(flat(&with_number("PrefetchDataset", range(10), size).unwrap()), flat(&range(10)));
    }
    assert_eq!(with_number("PrefetchDataset", range(1), -2).unwrap_err().code(), Code::InvalidArgument);
    let endless = with_number("RepeatDataset", range(10), -1).unwrap();
    let endless = from_tensor(&with_number("PrefetchDataset", endless, 2).unwrap()).unwrap();
    let source = Arc::downgrade(&endless);
    let mut iterator = endless.iterate(Nesting::default()).unwrap();
    assert!(iterator.next(&CallContext::of_step(&test_step())).unwrap().is_some());
    drop(iterator);
    assert!(source.upgrade().is_none(), "nobody but the iterator held the dataset");
}

#[test]
fn a_cancelled_wait_ends_and_keeps_what_comes_later() {
    let step = test_step();
    let context = CallContext::of_step(&step);
    let dataset = from_tensor(&with_number("PrefetchDataset", range(3), 1).unwrap()).unwrap();
    let mut iterator = dataset.iterate(Nesting::default()).unwrap();
    step.cancellation.cancel(Status::cancelled("enough"));
    // Either the element was there before anybody looked, or the wait was given up.
    let first = iterator.next(&context);
    let rest = CallContext::of_step(&test_step());
    let mut left = 0;
    while iterator.next(&rest).unwrap().is_some() {
        left += 1;
    }
    assert_eq!(left + usize::from(matches!(first, Ok(Some(_)))), 3);
}

#[test]
fn files_that_are_broken_or_missing_are_errors() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("records");
    let dataset = |path: &std::path::Path| {
        test_op("TFRecordDataset")
            .input(Tensor::string(path.to_str().unwrap().to_string()))
            .input(Tensor::string(""))
            .input(Tensor::scalar(0i64))
            .run_one()
    };
    assert_eq!(walk(&dataset(&path).unwrap()).unwrap_err().code(), Code::NotFound);
    let mut writer = tensorfleet_files::record::RecordWriter::new(Vec::new(), Default::default());
    writer.write(b"one").unwrap();
    writer.write(b"two").unwrap();
    let bytes = writer.finish().unwrap();
    std::fs::write(&path, &bytes).unwrap();
    let elements = walk(&dataset(&path).unwrap()).unwrap();
    let texts: Vec<&[u8]> =
        elements.iter().map(|element| &element[0].to_string_scalar().unwrap()[..]).collect();
    assert_eq!(texts, [b"one", b"two"]);
    for (damage, length) in [(0, bytes.len() - 1), (13, bytes.len()), (0, bytes.len())] {
        let mut broken = bytes[..length].to_vec();
        broken[damage] ^= u8::from(length == bytes.len()) * 0x40;
        std::fs::write(&path, &broken).unwrap();
        assert_eq!(walk(&dataset(&path).unwrap()).unwrap_err().code(), Code::DataLoss);
    }
}

#[test]
fn other_variants_are_no_datasets() {
    let other = Tensor::from_variants(vec![tensorfleet_core::Variant::new(Default::default())], &[]).unwrap();
    assert_eq!(with_number("TakeDataset", other, 1).unwrap_err().code(), Code::InvalidArgument);
    let many = Tensor::from_variants(vec![], &[0]).unwrap();
    assert_eq!(with_number("TakeDataset", many, 1).unwrap_err().code(), Code::InvalidArgument);
}

/// The elements of every window, first component.
fn windows(count: i64, size: i64, shift: i64, stride: i64, drops: bool) -> Result<Vec<Vec<i64>>> {
    let op = op("WindowDataset", &[DType::Variant], &[PartialShape::scalar()]).input(range(count));
    let op = op.input(Tensor::scalar(size)).input(Tensor::scalar(shift)).input(Tensor::scalar(stride));
    let dataset = op.input(Tensor::scalar(drops)).run_one()?;
    let windows: Vec<Vec<i64>> = walk(&dataset)?.iter().map(|window| flat(&window[0])).collect();
    assert_eq!(from_tensor(&dataset)?.cardinality().number(), windows.len() as i64);
    Ok(windows)
}

#[test]
fn windows_slide_stride_and_end() {
    assert_eq!(windows(5, 2, 2, 1, false).unwrap(), [vec![0, 1], vec![2, 3], vec![4]]);
    assert_eq!(windows(5, 2, 2, 1, true).unwrap(), [[0, 1], [2, 3]]);
    assert_eq!(windows(4, 3, 1, 1, false).unwrap(), [vec![0, 1, 2], vec![1, 2, 3], vec![2, 3], vec![3]]);
    assert_eq!(windows(6, 2, 1, 3, true).unwrap(), [[0, 3], [1, 4], [2, 5]]);
    assert_eq!(windows(7, 1, 3, 1, false).unwrap(), [[0], [3], [6]]);
    assert_eq!(windows(5, 2, 4, 1, true).unwrap(), [[0, 1]]);
    assert!(windows(0, 2, 2, 1, false).unwrap().is_empty());
    for (size, shift, stride) in [(0, 1, 1), (1, 0, 1), (1, 1, -1), (i64::MAX, 1, i64::MAX)] {
        assert_eq!(windows(5, size, shift, stride, false).unwrap_err().code(), Code::InvalidArgument);
    }
}

#[test]
fn a_cache_in_files_is_written_once_read_later_and_never_in_part() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache").display().to_string();
    let cached = |count| {
        int64_op("CacheDataset").input(range(count)).input(Tensor::from(path.as_str())).run_one().unwrap()
    };
    let given_up = from_tensor(&cached(5)).unwrap();
    let mut walk_in_part = given_up.iterate(Nesting::default()).unwrap();
    walk_in_part.next(&CallContext::of_step(&test_step())).unwrap();
    drop(walk_in_part);
    assert_eq!(
        std::fs::read_dir(directory.path()).unwrap().count(),
        0,
        "a walk that is given up leaves nothing"
    );
    assert_eq!(flat(&cached(3)), [0, 1, 2]);
    assert_eq!(flat(&cached(9)), [0, 1, 2], "the files are read");
    std::fs::write(format!("{path}.index"), b"damaged").unwrap();
    assert_eq!(walk(&cached(3)).unwrap_err().code(), Code::DataLoss);
}

/// Two walks that go on only when both are under way.
#[derive(Default)]
struct Meeting {
    arrived: parking_lot::Mutex<usize>,
    changed: parking_lot::Condvar,
}

impl Meeting {
    fn arrive(&self) -> Result<()> {
        let mut arrived = self.arrived.lock();
        *arrived += 1;
        self.changed.notify_all();
        while *arrived < 2 {
            if self.changed.wait_for(&mut arrived, std::time::Duration::from_secs(60)).timed_out() {
                return Err(Status::deadline_exceeded("the other walk has not begun"));
            }
        }
        Ok(())
    }
}

/// One number, after the meeting.
struct AfterMeeting {
    spec: super::dataset::ElementSpec,
    meeting: Arc<Meeting>,
    number: Tensor,
}

impl super::dataset::Dataset for AfterMeeting {
    fn spec(&self) -> &super::dataset::ElementSpec {
        &self.spec
    }

    fn iterate(self: Arc<Self>, _: Nesting) -> Result<Box<dyn super::dataset::DatasetIterator>> {
        Ok(Box::new(WalkAfterMeeting(Some(self))))
    }
}

struct WalkAfterMeeting(Option<Arc<AfterMeeting>>);

impl super::dataset::DatasetIterator for WalkAfterMeeting {
    fn next(&mut self, _: &CallContext) -> Result<Option<Element>> {
        let Some(dataset) = self.0.take() else { return Ok(None) };
        dataset.meeting.arrive()?;
        Ok(Some(vec![dataset.number.clone()]))
    }

    fn is_ready(&self) -> bool {
        false
    }
}

/// A library whose only function makes such datasets.
struct Meetings(Arc<Meeting>);

impl tensorfleet_kernel::functions::Functions for Meetings {
    fn instantiate(
        self: Arc<Self>,
        _: &tensorfleet_proto::tensorflow::NameAttrList,
    ) -> Result<Arc<dyn tensorfleet_kernel::functions::Function>> {
        Ok(self)
    }
}

impl tensorfleet_kernel::functions::Function for Meetings {
    fn arguments(&self) -> &[DType] {
        &[DType::Int64]
    }

    fn results(&self) -> &[DType] {
        &[DType::Variant]
    }

    fn call(&self, _: &CallContext, arguments: Vec<Tensor>, done: tensorfleet_kernel::functions::OnReturn) {
        let spec =
            super::dataset::ElementSpec { dtypes: vec![DType::Int64], shapes: vec![PartialShape::scalar()] };
        let dataset = AfterMeeting { spec, meeting: self.0.clone(), number: arguments[0].clone() };
        done(super::dataset::to_tensor(Arc::new(dataset), &arguments).map(|tensor| vec![tensor]));
    }

    fn call_elsewhere(
        &self,
        ctx: &CallContext,
        arguments: Vec<Tensor>,
        done: tensorfleet_kernel::functions::OnReturn,
    ) {
        self.call(ctx, arguments, done);
    }
}

#[test]
fn a_parallel_interleave_walks_along_several_datasets_at_once_and_keeps_their_order() {
    use tensorfleet_proto::tensorflow::{AttrValue, NameAttrList, attr_value};
    let mut step = test_step();
    Arc::get_mut(&mut step).unwrap().functions = Arc::new(Meetings(Arc::default()));
    let function = NameAttrList { name: "meet".to_string(), ..Default::default() };
    let function = AttrValue { value: Some(attr_value::Value::Func(function)) };
    let op = int64_op("ParallelInterleaveDatasetV3").in_step(&step).attr("f", function);
    let op = op.attr("Targuments", Vec::<DType>::new()).input(range(6));
    let op = op.input(Tensor::scalar(3i64)).input(Tensor::scalar(1i64)).input(Tensor::scalar(2i64));
    assert_eq!(flat(&op.run_one().unwrap()), [0, 1, 2, 3, 4, 5]);
}

/// A library whose only function makes a dataset that calls it again.
struct Endless;

impl tensorfleet_kernel::functions::Functions for Endless {
    fn instantiate(
        self: Arc<Self>,
        _: &tensorfleet_proto::tensorflow::NameAttrList,
    ) -> Result<Arc<dyn tensorfleet_kernel::functions::Function>> {
        Ok(self)
    }
}

impl tensorfleet_kernel::functions::Function for Endless {
    fn arguments(&self) -> &[DType] {
        &[DType::Int64]
    }

    fn results(&self) -> &[DType] {
        &[DType::Variant]
    }

    fn call(&self, _: &CallContext, _: Vec<Tensor>, done: tensorfleet_kernel::functions::OnReturn) {
        done(flat_mapped(range(1)).map(|dataset| vec![dataset]));
    }

    fn call_elsewhere(
        &self,
        ctx: &CallContext,
        arguments: Vec<Tensor>,
        done: tensorfleet_kernel::functions::OnReturn,
    ) {
        self.call(ctx, arguments, done);
    }
}

fn flat_mapped(input: Tensor) -> Result<Tensor> {
    use tensorfleet_proto::tensorflow::{AttrValue, NameAttrList, attr_value};
    let mut step = test_step();
    Arc::get_mut(&mut step).unwrap().functions = Arc::new(Endless);
    let function = NameAttrList { name: "again".to_string(), ..Default::default() };
    let function = AttrValue { value: Some(attr_value::Value::Func(function)) };
    let op = int64_op("FlatMapDataset").in_step(&step).attr("f", function);
    op.attr("Targuments", Vec::<DType>::new()).input(input).run_one()
}

/// Runs `work` with the stack that threads of pools have, and no more.
fn on_small_stack(work: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(2 << 20);
        thread.spawn_scoped(scope, work).unwrap().join().unwrap();
    });
}

#[test]
fn chains_of_datasets_have_an_end_and_what_is_allowed_fits_a_stack() {
    on_small_stack(|| {
        for name in ["SkipDataset", "RepeatDataset", "TakeDataset", "ShuffleDataset", "PrefetchDataset"] {
            let longer = |dataset: Tensor| match name {
                "ShuffleDataset" => int64_op(name)
                    .input(dataset)
                    .input(Tensor::scalar(1i64))
                    .input(Tensor::scalar(1i64))
                    .input(Tensor::scalar(1i64))
                    .run_one(),
                _ => with_number(name, dataset, 1),
            };
            let mut dataset = range(2000);
            let mut links = 1;
            let status = loop {
                match longer(dataset.clone()) {
                    Ok(next) => dataset = next,
                    Err(status) => break status,
                }
                links += 1;
            };
            assert_eq!(status.code(), Code::InvalidArgument);
            assert!(status.text().contains("nested 1001 deep"), "{name}: {status}");
            assert_eq!(links, 1000);
            // A thousand links are walked along, asked and dropped by recursion.
            let context = CallContext::of_step(&test_step());
            let mut iterator = from_tensor(&dataset).unwrap().iterate(Nesting::default()).unwrap();
            assert!(iterator.next(&context).unwrap().is_some(), "{name}");
            from_tensor(&dataset).unwrap().cardinality();
            let _ = iterator.is_ready();
        }
    });
}

#[test]
fn a_dataset_that_is_zipped_with_itself_again_and_again_is_refused() {
    let mut dataset = range(1);
    let status = loop {
        let zipped = op(
            "ZipDataset",
            &[DType::Int64, DType::Int64],
            &[PartialShape::unknown(), PartialShape::unknown()],
        );
        match zipped.attr("N", 2i64).input(dataset.clone()).input(dataset.clone()).run_one() {
            Ok(next) => dataset = next,
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), Code::ResourceExhausted);
}

#[test]
fn a_function_that_makes_datasets_of_itself_is_stopped() {
    on_small_stack(|| {
        let status = walk(&flat_mapped(range(1)).unwrap()).unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.text().contains("the same function"), "{status}");
    });
}
