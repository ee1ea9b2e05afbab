//! The generated messages against bytes written by real TensorFlow, and against bytes written out by
//! hand where a wrong field number would go unnoticed in a round trip.

// The exemption for tests does not reach their helper functions.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fmt::Debug;

use bytes::Bytes;
use prost::Name;
use tensorfleet_proto::Message;
use tensorfleet_proto::google::protobuf::Any;
use tensorfleet_proto::tensorflow::{attr_value::Value, error::Code, *};

/// Decodes bytes from a real peer and insists that encoding gives them back.
fn read<M: Message + Default>(bytes: &'static [u8]) -> M {
    let message = M::decode(bytes).unwrap();
    assert_eq!(message.encode_to_vec(), bytes);
    message
}

/// Checks both directions against bytes in hexadecimal; blanks are for the reader.
fn check<M: Message + Default + PartialEq + Debug>(message: M, hex: &str) {
    let digits: Vec<u8> = hex.bytes().filter(|digit| !digit.is_ascii_whitespace()).collect();
    let bytes: Vec<u8> = digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect();
    assert_eq!(message.encode_to_vec(), bytes, "encoding {message:?}");
    assert_eq!(M::decode(bytes.as_slice()).unwrap(), message);
}

fn dims(shape: &TensorShapeProto) -> Vec<i64> {
    shape.dim.iter().map(|dim| dim.size).collect()
}

fn type_attr(dtype: DataType) -> AttrValue {
    AttrValue { value: Some(Value::Type(dtype.into())) }
}

#[test]
fn tensor_with_raw_content() {
    let tensor: TensorProto = read(include_bytes!("data/f32_content.pb"));
    assert_eq!(tensor.dtype(), DataType::DtFloat);
    assert_eq!(dims(tensor.tensor_shape.as_ref().unwrap()), [2, 2]);
    let values: Vec<f32> =
        tensor.tensor_content.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    assert_eq!(values, [1.5, -2.0, 3.0, 4.0]);
}

#[test]
fn tensors_with_typed_values() {
    let tensor: TensorProto = read(include_bytes!("data/f32_last_repeats.pb"));
    assert_eq!(dims(tensor.tensor_shape.as_ref().unwrap()), [3, 2]);
    assert_eq!(tensor.float_val, [9.0, 7.0]);

    let tensor: TensorProto = read(include_bytes!("data/half_typed.pb"));
    assert_eq!(tensor.dtype(), DataType::DtHalf);
    assert_eq!(tensor.half_val, [0x3e00, 0xc000]);

    let tensor: TensorProto = read(include_bytes!("data/i32_typed.pb"));
    assert_eq!(tensor.dtype(), DataType::DtInt32);
    assert_eq!(tensor.int_val, [-1, 7]);
}

#[test]
fn string_tensor_in_its_wire_form() {
    let tensor: TensorProto = read(include_bytes!("data/str_content.pb"));
    assert_eq!(tensor.dtype(), DataType::DtString);
    assert_eq!(tensor.tensor_content, b"\x01\x00\x05ahello"[..]);
}

#[test]
fn graph_of_a_client() {
    let graph: GraphDef = read(include_bytes!("data/manual_placement_graph.pb"));
    let names: Vec<&str> = graph.node.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["a/initial_value", "a", "a/Assign", "a/read", "add/y", "add", "add_1"]);
    assert_eq!(graph.versions.as_ref().unwrap().producer, 2474);

    let assign = &graph.node[2];
    assert_eq!(assign.op, "Assign");
    assert_eq!(assign.input, ["a", "a/initial_value"]);
    assert_eq!(assign.device, "/job:ps");
    assert_eq!(assign.attr["T"], type_attr(DataType::DtFloat));
    let Some(Value::List(class)) = &assign.attr["_class"].value else { panic!("_class is a list") };
    assert_eq!(class.s, ["loc:@a"]);

    let Some(Value::Tensor(initial)) = &graph.node[0].attr["value"].value else {
        panic!("value is a tensor")
    };
    assert_eq!(initial.float_val, [1.0]);
}

#[test]
fn partition_sent_to_a_worker() {
    // Real servers write maps in hash order, so the bytes agree only up to the order of attributes.
    let bytes: &[u8] = include_bytes!("data/register_graph_request.pb");
    let request = RegisterGraphRequest::decode(bytes).unwrap();
    let sorted = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes.sort_unstable();
        bytes
    };
    assert_eq!(sorted(&request.encode_to_vec()), sorted(bytes));

    assert_eq!(request.session_handle.len(), 16);
    assert!(request.create_worker_session_called);
    let graph = request.graph_def.unwrap();
    let send = graph.node.iter().find(|node| node.op == "_Send").unwrap();
    assert!(matches!(send.attr["send_device_incarnation"].value, Some(Value::I(_))));
    let Some(Value::S(device)) = &send.attr["send_device"].value else { panic!("send_device is a string") };
    assert_eq!(device, "/job:ps/replica:0/task:0/device:CPU:0");
}

#[test]
fn devices_of_a_task() {
    let response: GetStatusResponse = read(include_bytes!("data/get_status_response.pb"));
    let [device] = response.device_attributes.as_slice() else { panic!("one device") };
    assert_eq!(device.name, "/job:ps/replica:0/task:0/device:CPU:0");
    assert_eq!(device.device_type, "CPU");
    assert_eq!(device.memory_limit, 256 << 20);
    assert_eq!(device.incarnation, 0xf001_0602_2cd1_1778);
    assert_eq!(device.xla_global_id, -1);
}

#[test]
fn error_in_the_body_of_a_response() {
    let response: RunStepResponse = read(include_bytes!("data/run_step_error_response.pb"));
    assert_eq!(response.status_code(), Code::FailedPrecondition);
    assert!(response.status_error_message.contains("uninitialized value never_initialised"));
    assert_eq!(response.metadata, Some(RunMetadata::default()));
}

#[test]
fn field_numbers_of_graphs() {
    let node = NodeDef {
        name: "n".into(),
        op: "Op".into(),
        input: vec!["a:1".into(), "^b".into()],
        device: "/cpu:0".into(),
        attr: BTreeMap::from([("T".into(), type_attr(DataType::DtInt64))]),
        experimental_debug_info: Some(node_def::ExperimentalDebugInfo {
            original_node_names: vec!["m".into()],
            original_func_names: vec![],
        }),
        experimental_type: Some(FullTypeDef { type_id: 1000, ..Default::default() }),
    };
    check(
        GraphDef {
            node: vec![node],
            versions: Some(VersionDef { producer: 38, ..Default::default() }),
            ..Default::default()
        },
        "0a2b 0a016e 12024f70 1a03613a31 1a025e62 22062f6370753a30 2a070a015412023009 32030a016d 3a0308e807 22020826",
    );
    check(
        GraphDef {
            library: Some(FunctionDefLibrary {
                function: vec![FunctionDef {
                    signature: Some(OpDef { name: "F".into(), is_stateful: true, ..Default::default() }),
                    ret: BTreeMap::from([("y".into(), "n:z:0".into())]),
                    ..Default::default()
                }],
                ..Default::default()
            }),
            ..Default::default()
        },
        "1216 0a14 0a060a0146880101 220a0a0179 12056e3a7a3a30",
    );
}

#[test]
fn field_numbers_of_sessions_and_steps() {
    check(ExtendSessionResponse { new_graph_version: 7 }, "2007");
    check(
        RunStepRequest {
            session_handle: "s".into(),
            feed: vec![NamedTensorProto { name: "x:0".into(), tensor: None }],
            fetch: vec!["y:0".into()],
            target: vec!["t".into()],
            options: Some(RunOptions {
                trace_level: run_options::TraceLevel::FullTrace.into(),
                output_partition_graphs: true,
                ..Default::default()
            }),
            partial_run_handle: "p".into(),
            store_errors_in_response_body: true,
            request_id: 3,
        },
        "0a0173 12050a03783a30 1a03793a30 220174 2a0408032801 320170 3801 4003",
    );
    check(
        ConfigProto {
            device_count: BTreeMap::from([("CPU".into(), 2)]),
            allow_soft_placement: true,
            graph_options: Some(GraphOptions {
                optimizer_options: Some(OptimizerOptions {
                    opt_level: optimizer_options::Level::L0.into(),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            isolate_session_state: true,
            ..Default::default()
        },
        "0a070a034350551002 3801 520d1a0b18ffffffffffffffffff01 7801",
    );
}

#[test]
fn field_numbers_between_workers() {
    check(
        RunGraphRequest {
            graph_handle: "g".into(),
            step_id: 5,
            recv_key: vec!["k".into()],
            exec_opts: Some(ExecutorOpts { record_timeline: true, ..Default::default() }),
            session_handle: "s".into(),
            create_worker_session_called: true,
            request_id: 9,
            ..Default::default()
        },
        "0a0167 1005 22016b 2a021801 420173 5001 5809",
    );
    check(
        RecvTensorRequest {
            step_id: 5,
            rendezvous_key: "k".into(),
            dma_ok: true,
            client_locality: Some(DeviceLocality::default()),
            request_id: -1,
            ..Default::default()
        },
        "0805 12016b 1801 2200 38ffffffffffffffffff01",
    );
    check(
        RecvTensorResponse {
            tensor: Some(TensorProto::default()),
            is_dead: true,
            send_start_micros: 1,
            require_ack: true,
            ..Default::default()
        },
        "0a00 1001 1801 2801",
    );
}

#[test]
fn field_numbers_of_checkpoints() {
    // An extent with a length of zero is not an extent without length.
    let extent = |start, length| tensor_slice_proto::Extent { start, length };
    check(TensorSliceProto { extent: vec![extent(3, Some(0)), extent(0, None)] }, "0a0408031000 0a00");
    check(
        BundleEntryProto {
            dtype: DataType::DtFloat.into(),
            shape: Some(TensorShapeProto::default()),
            shard_id: 1,
            offset: 4,
            size: 8,
            crc32c: 0x0403_0201,
            slices: vec![],
        },
        "0801 1200 1801 2004 2808 3501020304",
    );
}

#[test]
fn map_entries_may_leave_out_defaults() {
    let job = JobDef { name: "ps".into(), tasks: BTreeMap::from([(0, "h:1".into())]) };
    check(job.clone(), "0a027073 12051203683a31");
    let written_by_a_peer: &[u8] = b"\x0a\x02ps\x12\x07\x08\x00\x12\x03h:1";
    assert_eq!(JobDef::decode(written_by_a_peer).unwrap(), job);
}

#[test]
fn unknown_enum_values_are_kept() {
    let tensor = TensorProto::decode(&[0x08, 77][..]).unwrap();
    assert_eq!(tensor.dtype, 77);
    assert_eq!(tensor.encode_to_vec(), [0x08, 77]);
}

#[test]
fn tensor_content_shares_the_received_buffer() {
    let received = Bytes::from_static(include_bytes!("data/f32_content.pb"));
    let tensor = TensorProto::decode(received.clone()).unwrap();
    assert!(received.as_ptr_range().contains(&tensor.tensor_content.as_ptr()));
}

#[test]
fn any_carries_a_type_url_that_peers_accept() {
    let extra = RecvBufRespExtra { tensor_content: vec![Bytes::from_static(b"ab")] };
    let any = Any { type_url: RecvBufRespExtra::type_url(), value: extra.encode_to_vec().into() };
    assert_eq!(any.type_url, "type.googleapis.com/tensorflow.RecvBufRespExtra");
    assert_eq!(any.value, b"\x0a\x02ab"[..]);
}

#[test]
fn attribute_values_stay_small() {
    // Attribute maps are what a large graph consists of.
    assert!(size_of::<AttrValue>() <= 64, "{} bytes", size_of::<AttrValue>());
}
