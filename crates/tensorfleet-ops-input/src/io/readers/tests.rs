//! Readers: records from queued files, in order, and what happens at the ends.

use std::sync::mpsc::{Receiver, channel};
use tensorfleet_kernel::file_access::FileAccess;

use tensorfleet_core::{Code, DType, PartialShape, Tensor};

use super::*;
use crate::testing::{TestOp, test_op, test_step};
use tensorfleet_kernel::kernel::StepContext;

/// A step with a queue of file names and a reader that takes them.
struct Fixture {
    step: Arc<StepContext>,
    queue: Tensor,
    directory: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Fixture {
        let step = test_step();
        let queue = test_op("FIFOQueueV2").attr("component_types", vec![DType::String]);
        let queue = queue.attr("shapes", vec![PartialShape::scalar()]).attr("shared_name", "names");
        let queue = queue.in_step(&step).run_one().unwrap();
        Fixture { step, queue, directory: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    fn enqueue(&self, name: &str) {
        let op = test_op("QueueEnqueueV2").attr("Tcomponents", vec![DType::String]).in_step(&self.step);
        op.input(self.queue.clone()).input(Tensor::string(name.to_string())).run().unwrap();
    }

    fn close(&self) {
        test_op("QueueCloseV2").in_step(&self.step).input(self.queue.clone()).run().unwrap();
    }

    fn reader(&self, op: TestOp) -> Tensor {
        op.attr("shared_name", "reader").in_step(&self.step).run_one().unwrap()
    }

    fn read(&self, reader: &Tensor) -> Result<(String, String)> {
        let op = test_op("ReaderReadV2").in_step(&self.step).input(reader.clone()).input(self.queue.clone());
        let outputs = op.run()?;
        let text = |tensor: &Tensor| String::from_utf8(tensor.to_string_scalar().unwrap().to_vec()).unwrap();
        let key =
            text(&outputs[0]).trim_start_matches(&self.directory.path().display().to_string()).to_string();
        Ok((key, text(&outputs[1])))
    }
}

fn pair(key: &str, value: &str) -> Result<(String, String)> {
    Ok((key.to_string(), value.to_string()))
}

#[test]
fn lines_come_without_their_ends_and_headers() {
    let fixture = Fixture::new();
    fixture.enqueue(&fixture.file("a", b"head\r\nx\n"));
    fixture.enqueue(&fixture.file("empty", b""));
    fixture.enqueue(&fixture.file("b", b"head\ny"));
    fixture.close();
    let reader = fixture.reader(test_op("TextLineReaderV2").attr("skip_header_lines", 1i64));
    assert_eq!(fixture.read(&reader), pair("/a:2", "x"));
    assert_eq!(fixture.read(&reader), pair("/b:2", "y"));
    assert_eq!(fixture.read(&reader).unwrap_err().code(), Code::OutOfRange);
    let count = |op: &str| {
        let op = test_op(op).in_step(&fixture.step).input(reader.clone());
        op.run_one().unwrap().to_scalar::<i64>().unwrap()
    };
    assert_eq!((count("ReaderNumRecordsProducedV2"), count("ReaderNumWorkUnitsCompletedV2")), (2, 3));
    test_op("ReaderResetV2").in_step(&fixture.step).input(reader.clone()).run().unwrap();
    assert_eq!(count("ReaderNumRecordsProducedV2"), 0);
}

#[test]
fn fixed_records_lie_between_header_and_footer() {
    let fixture = Fixture::new();
    fixture.enqueue(&fixture.file("a", b"0123456789ab"));
    fixture.close();
    let op = test_op("FixedLengthRecordReaderV2").attr("record_bytes", 4i64);
    let reader = fixture.reader(op.attr("header_bytes", 2i64).attr("footer_bytes", 2i64));
    assert_eq!(fixture.read(&reader), pair("/a:0", "2345"));
    assert_eq!(fixture.read(&reader), pair("/a:1", "6789"));
    assert_eq!(fixture.read(&reader).unwrap_err().code(), Code::OutOfRange);
    let none = test_op("FixedLengthRecordReaderV2").attr("record_bytes", 0i64);
    assert_eq!(none.run().unwrap_err().code(), Code::InvalidArgument);
}

#[test]
fn records_that_overlap_are_read_with_a_hop() {
    let fixture = Fixture::new();
    fixture.enqueue(&fixture.file("a", b"abcde"));
    let op = test_op("FixedLengthRecordReaderV2").attr("record_bytes", 3i64).attr("hop_bytes", 1i64);
    let reader = fixture.reader(op);
    let read = test_op("ReaderReadUpToV2").in_step(&fixture.step).input(reader).input(fixture.queue.clone());
    let outputs = read.input(Tensor::scalar(10i64)).run().unwrap();
    assert_eq!(outputs[1].as_strings().unwrap(), ["abc", "bcd", "cde"]);
}

#[test]
fn whole_files_names_and_tf_records_are_records() {
    let fixture = Fixture::new();
    let path = fixture.file("a", b"content");
    fixture.enqueue(&path);
    let whole = fixture.reader(test_op("WholeFileReaderV2"));
    assert_eq!(fixture.read(&whole), pair("/a", "content"));
    let fixture = Fixture::new();
    fixture.enqueue("work");
    assert_eq!(fixture.read(&fixture.reader(test_op("IdentityReaderV2"))), pair("work", "work"));
    let fixture = Fixture::new();
    let mut writer = tensorfleet_files::record::RecordWriter::new(Vec::new(), Default::default());
    ["one", "two"].into_iter().for_each(|record| writer.write(record.as_bytes()).unwrap());
    fixture.enqueue(&fixture.file("r", &writer.finish().unwrap()));
    let reader = fixture.reader(test_op("TFRecordReaderV2"));
    assert_eq!(fixture.read(&reader), pair("/r:0", "one"));
    assert_eq!(fixture.read(&reader), pair("/r:19", "two"));
}

#[test]
fn a_missing_file_fails_one_read_and_the_next_goes_on() {
    let fixture = Fixture::new();
    fixture.enqueue("/none/at/all");
    fixture.enqueue(&fixture.file("a", b"x"));
    let reader = fixture.reader(test_op("TextLineReaderV2"));
    assert_eq!(fixture.read(&reader).unwrap_err().code(), Code::NotFound);
    assert_eq!(fixture.read(&reader), pair("/a:1", "x"));
}

#[test]
fn reads_that_wait_are_served_in_order_when_a_name_arrives() {
    let fixture = Fixture::new();
    let queue: Arc<Queue> = fixture.step.session.resources.get("", "names").unwrap();
    let reader = Arc::new(Reader::new(Format::Lines { skipped: 0 }, FileAccess::EVERYWHERE));
    let read = || -> Receiver<Result<Vec<Record>>> {
        let (sender, receiver) = channel();
        let done = Box::new(move |result, _: Resume<'_>| sender.send(result).unwrap());
        reader.read(1, queue.clone(), fixture.step.cancellation.clone(), done, Resume::OnPool);
        receiver
    };
    let (first, second) = (read(), read());
    assert!(first.try_recv().is_err());
    fixture.enqueue(&fixture.file("a", b"x\ny\n"));
    let value =
        |receiver: Receiver<Result<Vec<Record>>>| receiver.try_recv().unwrap().unwrap()[0].value.clone();
    assert_eq!((value(first), value(second)), (Bytes::from("x"), Bytes::from("y")));
}

#[test]
fn a_read_started_by_the_end_of_another_is_served_once() {
    let fixture = Fixture::new();
    let queue: Arc<Queue> = fixture.step.session.resources.get("", "names").unwrap();
    let reader = Arc::new(Reader::new(Format::Name, FileAccess::EVERYWHERE));
    let (sender, receiver) = channel();
    let (again, from, cancellation) = (reader.clone(), queue.clone(), fixture.step.cancellation.clone());
    let first = Box::new(move |_, resume: Resume<'_>| {
        let done = Box::new(move |result, _: Resume<'_>| sender.send(result).unwrap());
        again.read(1, from, cancellation, done, resume);
    });
    reader.read(1, queue.clone(), fixture.step.cancellation.clone(), first, Resume::OnPool);
    ["a", "b", "c"].into_iter().for_each(|name| fixture.enqueue(name));
    assert_eq!(receiver.try_recv().unwrap().unwrap()[0].key, "b");
    assert_eq!(queue.size(), 1);
}
