//! What fuzzing begins with: real graphs, messages and files, small ones, so that the fuzzers need not invent formats.

use bytes::Bytes;
use tensorfleet_core::{Result, Shape, Tensor};
use tensorfleet_files::bundle::{BundleWriter, data_path, index_path};
use tensorfleet_files::record::{Compression, RecordWriter};
use tensorfleet_files::slice_file::SliceFileWriter;
use tensorfleet_files::tensor_slice::TensorSlice;
use tensorfleet_files::{FileAccess, table};
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::feature::Kind;
use tensorfleet_proto::tensorflow::*;

use super::pieces::join;
use super::sandbox;
use super::services::{DEVICE, MASTER_METHODS, WORKER_METHODS, echo_partition, session_graph};
use crate::packed;

/// Graphs and feeds up to this size are seeds; mutating larger ones takes long to hit something.
const MAX_SEED_BYTES: usize = 1500;

/// The first inputs of a target; none for one that finds its way without.
pub fn seeds(target: &str) -> Result<Vec<Vec<u8>>> {
    let lines = |lines: &[&str]| lines.iter().map(|line| line.as_bytes().to_vec()).collect();
    Ok(match target {
        "device_name" => lines(&[
            "/job:worker/replica:0/task:1/device:CPU:0",
            "/job:ps/task:0/cpu:*\n/device:GPU:1",
            "/job:localhost/replica:0/task:0/device:XLA_CPU:12\n/task:3",
        ]),
        "rendezvous_key" => vec![
            format!("{DEVICE};0000000000000001;{DEVICE};edge_7_x;0:0").into_bytes(),
            format!("/job:ps/replica:0/task:0/cpu:0;00ff;{DEVICE};a;12:34").into_bytes(),
        ],
        "slice_spec" => lines(&["0,3:-:2,1", "-", "4 5 0,2:-", "10 1,4", "2 3 4 -:-:1,2"]),
        "cluster_spec" => cluster_specs(),
        "tensor_proto" => fed_tensors(Encoding::Tensor)?,
        "recv_tensor" => fed_tensors(Encoding::Received)?,
        "record" => records()?,
        "table" | "checkpoint" => checkpoints(target)?,
        "old_checkpoint" => old_checkpoints()?,
        "checkpoint_state" => lines(&[
            "model_checkpoint_path: \"model-2\"\nall_model_checkpoint_paths: \"model-1\"\n\
             all_model_checkpoint_paths: \"model-2\"\nall_model_checkpoint_timestamps: 1.5e9\n\
             last_preserved_timestamp: 1.4e9\n",
            "model_checkpoint_path: '\\x41\\101\\n' # why\nunknown: [1, 2]\n",
        ]),
        "meta_graph" => meta_graphs()?,
        "image" => images(),
        "example" => examples(),
        "text" => texts(),
        "graph_def" => {
            let graphs = packed::cases()?.into_iter().map(|case| case.graph.encode_to_vec());
            thinned(graphs.filter(|graph| graph.len() <= MAX_SEED_BYTES).collect(), 600)
        }
        "master_service" => master_calls(),
        "worker_service" => worker_calls(),
        "http" => connections(),
        _ => Vec::new(),
    })
}

/// Some of many, spread evenly.
fn thinned(all: Vec<Vec<u8>>, most: usize) -> Vec<Vec<u8>> {
    let step = all.len().div_ceil(most).max(1);
    all.into_iter().step_by(step).collect()
}

fn cluster_specs() -> Vec<Vec<u8>> {
    let text = |kind: u8, text: &str| [&[kind], text.as_bytes()].concat();
    let def = ClusterDef {
        job: vec![JobDef { name: "ps".into(), tasks: [(0, "a:1".into()), (3, "b:2".into())].into() }],
    };
    vec![
        text(0, r#"{"cluster": {"ps": ["a:1"], "worker": {"0": "b:2", "2": "[::1]:3"}}}"#),
        text(1, "ps = ['a:1']\n[worker]\n0 = 'b:1'\n3 = 'c:1'\n"),
        text(2, r#"{"cluster": {"chief": ["a:1"], "ps": ["b:1"]}, "task": {"type": "ps", "index": 0}}"#),
        text(3, "a:1,b:2\nc:3, localhost: 4"),
        [&[4], &def.encode_to_vec()[..]].concat(),
        text(5, "grpc://[fe80::1%lo]:2222"),
    ]
}

#[derive(Clone, Copy, PartialEq)]
enum Encoding {
    Tensor,
    Received,
}

/// The values that the conformance cases feed, which cover all dtypes.
fn fed_tensors(encoding: Encoding) -> Result<Vec<Vec<u8>>> {
    let encode = |value: &Tensor| {
        let protos = [value.to_proto(), value.to_content_proto()];
        protos.map(|proto| match encoding {
            Encoding::Tensor => proto.encode_to_vec(),
            Encoding::Received => {
                let received = RecvTensorResponse { tensor: Some(proto), ..Default::default() };
                RecvTensorResponse { send_start_micros: 5, require_ack: true, ..received }.encode_to_vec()
            }
        })
    };
    let cases = packed::cases()?;
    let values = cases.iter().flat_map(|case| &case.feeds).map(|feed| &feed.value);
    let mut seeds: Vec<Vec<u8>> = values.filter(|value| value.byte_size() <= 64).flat_map(encode).collect();
    seeds.sort();
    seeds.dedup();
    Ok(thinned(seeds, 200))
}

fn failed(error: impl std::fmt::Display) -> tensorfleet_core::Status {
    tensorfleet_core::Status::internal(format!("a seed: {error}"))
}

fn records() -> Result<Vec<Vec<u8>>> {
    let mut seeds = Vec::new();
    for (kind, compression) in
        [Compression::None, Compression::Zlib, Compression::Gzip].into_iter().enumerate()
    {
        let mut writer = RecordWriter::new(Vec::new(), compression);
        for record in [&b"first"[..], b"", &[7; 40]] {
            writer.write(record).map_err(failed)?;
        }
        seeds.push([&[kind as u8], &writer.finish().map_err(failed)?[..]].concat());
        seeds.push(join(&[0x80 | kind as u8], &[b"first", b"", &[7; 40]], &[]));
    }
    let value = summary::Value {
        tag: "loss".into(),
        value: Some(summary::value::Value::SimpleValue(0.5)),
        ..Default::default()
    };
    let event = Event {
        wall_time: 1.5e9,
        step: 7,
        what: Some(event::What::Summary(Summary { value: vec![value] })),
        ..Default::default()
    };
    seeds.push(join(&[0x40], &[&event.encode_to_vec()], &[]));
    Ok(seeds)
}

/// Checkpoints of whole and divided tensors, as their tables or as what is in them.
fn checkpoints(target: &str) -> Result<Vec<Vec<u8>>> {
    sandbox::with_directory(|directory| {
        let prefix = directory.join("seed").to_string_lossy().into_owned();
        let mut writer = BundleWriter::create(&FileAccess::EVERYWHERE, &prefix)?;
        writer.add("a", &Tensor::from_slice(&[1.0f32, 2.0], &[2])?)?;
        writer.add("b/c", &Tensor::from_strings(vec!["x".into(), "".into(), "yz".into()], &[3])?)?;
        let full = Shape::new(&[4, 2])?;
        for spec in ["0,2:-", "2,2:-"] {
            let slice = TensorSlice::parse(spec)?;
            writer.add_slice("divided", &full, &slice, &Tensor::from_slice(&[1i64, 2, 3, 4], &[2, 2])?)?;
        }
        writer.finish()?;
        let index = Bytes::from(std::fs::read(index_path(&prefix)).map_err(failed)?);
        let data = std::fs::read(data_path(&prefix, 0, 1)).map_err(failed)?;
        if target == "table" {
            let block = [&[0], &index[..index.len().min(60)]].concat();
            return Ok(vec![
                [&[0], &index[..]].concat(),
                join(&[1], &[&block, &[0, 0, 1, 2, b'k', 0, 5, 0, 0, 0, 0]], &[]),
            ]);
        }
        let entries = table::read(&index)?;
        let mut pieces: Vec<&[u8]> =
            entries.iter().flat_map(|entry| [&entry.key[..], &entry.value]).collect();
        pieces.push(&[]);
        Ok(vec![join(&[0], &pieces, &data), join(&[1], &pieces, &data)])
    })
}

fn old_checkpoints() -> Result<Vec<Vec<u8>>> {
    sandbox::with_directory(|directory| {
        let path = directory.join("old-seed").to_string_lossy().into_owned();
        let mut writer = SliceFileWriter::default();
        let full = Shape::new(&[4])?;
        for spec in ["0,2", "2,2"] {
            writer.add("v", &full, &TensorSlice::parse(spec)?, &Tensor::from_slice(&[1.0f32, 2.0], &[2])?)?;
        }
        let text = Tensor::from_slice(&[1i64], &[1])?;
        writer.add("w", &Shape::new(&[1])?, &TensorSlice::parse("-")?, &text)?;
        writer.finish(&FileAccess::EVERYWHERE, &path)?;
        let entries = table::read(&std::fs::read(&path).map_err(failed)?.into())?;
        let pieces: Vec<&[u8]> = entries.iter().flat_map(|entry| [&entry.key[..], &entry.value]).collect();
        Ok(vec![join(&[], &pieces, &[])])
    })
}

fn meta_graphs() -> Result<Vec<Vec<u8>>> {
    let graphs = packed::cases()?.into_iter().map(|case| case.graph);
    let graphs = graphs.filter(|graph| graph.encoded_len() <= MAX_SEED_BYTES);
    let nodes = CollectionDef {
        kind: Some(collection_def::Kind::NodeList(collection_def::NodeList { value: vec!["x:0".into()] })),
    };
    let seeds = graphs.map(|graph| {
        let meta = MetaGraphDef {
            graph_def: Some(graph),
            collection_def: [("losses".to_string(), nodes.clone())].into(),
            saver_def: Some(SaverDef {
                filename_tensor_name: "save/Const:0".into(),
                save_tensor_name: "save/control_dependency:0".into(),
                restore_op_name: "save/restore_all".into(),
                max_to_keep: 5,
                ..Default::default()
            }),
            ..Default::default()
        };
        meta.encode_to_vec()
    });
    Ok(thinned(seeds.collect(), 60))
}

fn images() -> Vec<Vec<u8>> {
    let png: &[u8] = &[
        0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, 0x49, 0x48, 0x44, 0x52, 0, 0, 0, 1, 0,
        0, 0, 1, 8, 2, 0, 0, 0, 0x90, 0x77, 0x53, 0xde, 0, 0, 0, 0x0c, 0x49, 0x44, 0x41, 0x54, 0x08, 0xd7,
        0x63, 0xf8, 0xcf, 0xc0, 0, 0, 3, 1, 1, 0, 0x18, 0xdd, 0x8d, 0xb0, 0, 0, 0, 0, 0x49, 0x45, 0x4e, 0x44,
        0xae, 0x42, 0x60, 0x82,
    ];
    let jpeg: &[u8] = include_bytes!("../../../crates/tensorfleet-ops-input/src/io/images/grey_8x8.jpg");
    // Two pixels of 24 bits.
    let mut bmp = b"BM\x3e\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x02\0\0\0\x01\0\0\0\x01\0\x18\0".to_vec();
    bmp.resize(54, 0);
    bmp.extend_from_slice(&[1, 2, 3, 4, 5, 6, 0, 0]);
    let kinds = [
        (0, png),
        (1, jpeg),
        (2, &bmp[..]),
        (3, png),
        (3, jpeg),
        (4, png),
        (5, jpeg),
        (6, &bmp),
        (7, png),
        (8, png),
    ];
    kinds.iter().map(|(kind, file)| [&[*kind], *file].concat()).collect()
}

fn examples() -> Vec<Vec<u8>> {
    let feature = |kind| Feature { kind: Some(kind) };
    let features = [
        ("a".to_string(), feature(Kind::FloatList(FloatList { value: vec![1.0, 2.5] }))),
        ("b".to_string(), feature(Kind::Int64List(Int64List { value: vec![1, -1] }))),
        ("c".to_string(), feature(Kind::BytesList(BytesList { value: vec!["xyz".into()] }))),
    ];
    let example = Example { features: Some(Features { feature: features.into() }) }.encode_to_vec();
    (0..4).map(|kind| [&[kind], &example[..]].concat()).collect()
}

fn texts() -> Vec<Vec<u8>> {
    let lines = [
        "1.5,2,\"a \"\"b\"\"\",-3,1e-5",
        "1;2;x;3;4",
        "-1.5e3",
        "nan",
        "  42 ",
        "YWJjZA==",
        "aab ccc",
        "ab1x",
    ];
    (0..18u8).flat_map(|kind| lines.map(|line| [&[kind], line.as_bytes()].concat())).collect()
}

/// A call of the method whose name ends so.
fn call(methods: &[&str], name: &str, message: &[u8]) -> Vec<u8> {
    let method = methods.iter().position(|method| method.ends_with(name)).unwrap_or_default();
    join(&[method as u8], &[message], &[])
}

fn named(name: &str) -> NamedTensorProto {
    NamedTensorProto { name: name.into(), tensor: Some(Tensor::scalar(3.0f32).to_proto()) }
}

fn master_calls() -> Vec<Vec<u8>> {
    let call = |name: &str, message: Vec<u8>| call(MASTER_METHODS, name, &message);
    let session_handle = || "S".to_string();
    let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    let step = |fetch: &[&str], target: &[&str], feed: &[&str], partial: &str| {
        RunStepRequest {
            session_handle: session_handle(),
            feed: feed.iter().map(|name| named(name)).collect(),
            fetch: names(fetch),
            target: names(target),
            partial_run_handle: partial.into(),
            options: Some(RunOptions { trace_level: 3, timeout_in_ms: 20, ..Default::default() }),
            ..Default::default()
        }
        .encode_to_vec()
    };
    let extension = || GraphDef {
        node: vec![NodeDef {
            name: "more".into(),
            op: "NoOp".into(),
            input: vec!["^init".into()],
            ..Default::default()
        }],
        ..Default::default()
    };
    let options = || CallableOptions {
        feed: names(&["x:0"]),
        fetch: names(&["z:0"]),
        target: names(&["add"]),
        ..Default::default()
    };
    let calls = vec![
        call("CreateSession", {
            CreateSessionRequest { graph_def: Some(session_graph()), ..Default::default() }.encode_to_vec()
        }),
        call("ExtendSession", {
            let graph_def = Some(extension());
            ExtendSessionRequest { session_handle: session_handle(), graph_def, ..Default::default() }
                .encode_to_vec()
        }),
        call("RunStep", step(&["z:0"], &[], &["x:0"], "")),
        call("RunStep", step(&["v:0"], &["init"], &[], "")),
        call("RunStep", step(&[], &["put"], &["x:0"], "")),
        call("RunStep", step(&["take:0"], &[], &[], "")),
        call("RunStep", step(&["y:0"], &[], &["x:0"], "P")),
        call("PartialRunSetup", {
            PartialRunSetupRequest {
                session_handle: session_handle(),
                feed: names(&["x:0"]),
                fetch: names(&["y:0", "z:0"]),
                ..Default::default()
            }
            .encode_to_vec()
        }),
        call("MakeCallable", {
            MakeCallableRequest { session_handle: session_handle(), options: Some(options()), request_id: 0 }
                .encode_to_vec()
        }),
        call("RunCallable", {
            let feed = vec![Tensor::scalar(3.0f32).to_proto()];
            RunCallableRequest { session_handle: session_handle(), handle: 1, feed, request_id: 0 }
                .encode_to_vec()
        }),
        call("ReleaseCallable", {
            ReleaseCallableRequest { session_handle: session_handle(), handle: 1 }.encode_to_vec()
        }),
        call("ListDevices", ListDevicesRequest { session_handle: session_handle() }.encode_to_vec()),
        call("Reset", {
            ResetRequest { container: names(&["localhost"]), device_filters: names(&["/job:worker"]) }
                .encode_to_vec()
        }),
        call("CloseSession", CloseSessionRequest { session_handle: session_handle() }.encode_to_vec()),
    ];
    with_sequences(calls)
}

fn worker_calls() -> Vec<Vec<u8>> {
    let session_handle = || "W".to_string();
    let keys = |keys: &[&str]| keys.iter().map(|key| key.to_string()).collect::<Vec<_>>();
    let run = |step_id: i64, is_partial: bool| RunGraphRequest {
        session_handle: session_handle(),
        create_worker_session_called: true,
        graph_handle: "G".into(),
        step_id,
        send: vec![named("Kx")],
        recv_key: keys(&["Ky"]),
        is_partial,
        is_last_partial_run: is_partial,
        exec_opts: Some(ExecutorOpts {
            record_timeline: true,
            record_partition_graphs: true,
            ..Default::default()
        }),
        store_errors_in_response_body: true,
        ..Default::default()
    };
    let call = |name: &str, message: Vec<u8>| call(WORKER_METHODS, name, &message);
    let graph_def = Some(echo_partition(1));
    let calls = vec![
        call(
            "CreateWorkerSession",
            CreateWorkerSessionRequest {
                session_handle: "other".into(),
                isolate_session_state: true,
                server_def: Some(ServerDef { job_name: "worker".into(), ..Default::default() }),
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        call(
            "RegisterGraph",
            RegisterGraphRequest {
                session_handle: session_handle(),
                create_worker_session_called: true,
                graph_def,
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        call("RunGraph", run(7, false).encode_to_vec()),
        call("RunGraph", RunGraphRequest { send: Vec::new(), ..run(8, true) }.encode_to_vec()),
        call(
            "RecvTensor",
            RecvTensorRequest { step_id: 7, rendezvous_key: "Ky".into(), ..Default::default() }
                .encode_to_vec(),
        ),
        // `RecvTensors`: a step and keys.
        call("RecvTensors", [&[8, 7, 18, 2][..], b"Ky", &[18, 2], b"Kx"].concat()),
        call(
            "DeregisterGraph",
            DeregisterGraphRequest {
                session_handle: session_handle(),
                graph_handle: "G".into(),
                create_worker_session_called: true,
            }
            .encode_to_vec(),
        ),
        call(
            "DeleteWorkerSession",
            DeleteWorkerSessionRequest { session_handle: session_handle() }.encode_to_vec(),
        ),
        call("CleanupGraph", CleanupGraphRequest { step_id: 7 }.encode_to_vec()),
        call("CleanupAll", CleanupAllRequest { container: keys(&["localhost"]) }.encode_to_vec()),
        call("GetStatus", Vec::new()),
        call("Logging", LoggingRequest { clear: true, ..Default::default() }.encode_to_vec()),
        call("GetStepSequence", GetStepSequenceRequest { graph_key: vec![5] }.encode_to_vec()),
        call("FleetService/Status", Vec::new()),
    ];
    with_sequences(calls)
}

/// Each call alone, each with the one after it, and four in a row.
fn with_sequences(calls: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let several = |length: usize| calls.windows(length).map(|calls| calls.concat()).collect::<Vec<_>>();
    [several(1), several(2), several(4)].concat()
}

/// Requests of HTTP/1, and of HTTP/2 with headers spelled out, as frames.
fn connections() -> Vec<Vec<u8>> {
    let plain = |text: &str| [&[0], text.as_bytes()].concat();
    let mut headers = vec![0x83, 0x86];
    for (name, value) in [
        (":path", "/a.A/Tensor"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("grpc-timeout", "1S"),
    ] {
        headers.push(0x10);
        for text in [name, value] {
            headers.push(text.len() as u8);
            headers.extend_from_slice(text.as_bytes());
        }
    }
    let message = RecvTensorResponse {
        tensor: Some(
            Tensor::from_slice(&[1.0f32, 2.0], &[2])
                .map(|tensor| tensor.to_content_proto())
                .unwrap_or_default(),
        ),
        ..Default::default()
    }
    .encode_to_vec();
    let framed = [&[0, 0, 0, 0, message.len() as u8], &message[..]].concat();
    let frame =
        |kind: u8, flags: u8, stream: u8, payload: &[u8]| join(&[kind, flags, stream], &[payload], &[]);
    let request = [frame(1, 4, 1, &headers), frame(0, 1, 1, &framed)].concat();
    let cut = [frame(1, 4, 1, &headers), frame(0, 0, 1, &framed[..9]), frame(0, 1, 1, &framed[9..])].concat();
    let reset = [frame(1, 4, 1, &headers), frame(3, 0, 1, &[0, 0, 0, 8])].concat();
    let page = frame(1, 5, 1, &[0x82, 0x84, 0x86, 0x41, 1, b'a']);
    let others = [
        frame(4, 0, 0, &[0, 4, 0, 0, 255, 255]),
        frame(6, 0, 0, &[1; 8]),
        frame(8, 0, 0, &[0, 0, 1, 0]),
        frame(2, 0, 3, &[0, 0, 0, 1, 9]),
        frame(7, 0, 0, &[0; 8]),
    ]
    .concat();
    let framed = |frames: &[u8]| [&[1], frames].concat();
    vec![
        plain("GET / HTTP/1.1\r\nhost: a\r\n\r\n"),
        plain(
            "POST /a.A/Small HTTP/1.1\r\nhost: a\r\ncontent-type: application/grpc\r\ncontent-length: 5\r\n\r\n\0\0\0\0\0",
        ),
        plain(
            "POST /a.A/Small HTTP/1.1\r\nhost: a\r\ncontent-type: application/grpc\r\ntransfer-encoding: chunked\r\n\r\n5\r\n\0\0\0\0\0\r\n0\r\n\r\n",
        ),
        framed(&request),
        framed(&cut),
        framed(&reset),
        framed(&page),
        framed(&others),
        framed(&[request, others].concat()),
    ]
}
