//! Calls over real sockets: what a client sends arrives, answers and errors come back, and nobody waits in vain.

#![expect(clippy::disallowed_methods, reason = "tests wait in real time and start threads")]
#![allow(clippy::unwrap_used)]

mod harness;

use std::time::{Duration, Instant};

use bytes::Bytes;
use harness::{TestServer, channel, echo_server};
use tensorfleet_core::{Code, DType, Shape, Tensor};
use tensorfleet_proto::tensorflow::{CleanupGraphRequest, RunStepRequest};
use tensorfleet_rpc::{CallOptions, Parts, recv_tensor, tensors};

#[tokio::test]
async fn a_message_goes_there_and_back() {
    let server = echo_server();
    let channel = channel(&server);
    assert!(!channel.is_connected());
    for step_id in [0, 1, i64::MAX] {
        let message = CleanupGraphRequest { step_id };
        let answer = channel.call(
            "/tensorflow.WorkerService/Echo",
            Parts::from_message(&message),
            CallOptions::default(),
        );
        assert_eq!(answer.await.unwrap().message.decode::<CleanupGraphRequest>().unwrap(), message);
    }
    assert!(channel.is_connected());
    let stats = channel.stats();
    assert!(stats.bytes_sent > 0 && stats.bytes_received > 0);
    assert_eq!(stats.calls_outstanding, 0);
}

#[tokio::test]
async fn metadata_and_both_package_names_arrive() {
    let server = echo_server();
    let channel = channel(&server);
    let options = CallOptions { metadata: &[("tf-rpc", "17")], ..Default::default() };
    let answer =
        channel.call("/tensorflow.grpc.WorkerService/Metadata", Parts::empty(), options).await.unwrap();
    assert_eq!(answer.metadata["tf-rpc"], "17");
    assert_eq!(answer.metadata["seen-method"], "/tensorflow.WorkerService/Metadata");
}

fn samples() -> Vec<Tensor> {
    use DType::*;
    let plain = [
        Float, Double, Int32, UInt8, Int16, Int8, Complex64, Int64, Bool, QInt8, BFloat16, UInt16,
        Complex128, Half, UInt32, UInt64,
    ];
    let shapes: [&[usize]; 5] = [&[], &[0], &[3], &[2, 0, 4], &[7, 1, 1000]];
    let mut tensors = Vec::new();
    for dtype in plain {
        for shape in shapes {
            let mut tensor = Tensor::zeros(dtype, Shape::new(shape).unwrap()).unwrap();
            if dtype != Bool {
                tensor.make_bytes_mut().unwrap().iter_mut().enumerate().for_each(|(i, byte)| *byte = i as u8);
            }
            tensors.push(tensor);
        }
    }
    tensors.push(Tensor::string("hello"));
    tensors.push(Tensor::from_strings(vec![Bytes::new(), vec![b'x'; 100_000].into()], &[2, 1]).unwrap());
    tensors.push(Tensor::from_strings(vec![], &[0]).unwrap());
    tensors
}

#[tokio::test]
async fn tensors_of_every_dtype_and_shape_are_received_as_they_were() {
    let expected = samples();
    let server = TestServer::tensors(expected.clone());
    let channel = channel(&server);
    for (index, expected) in expected.iter().enumerate() {
        let request = Parts::from_message(&CleanupGraphRequest { step_id: index as i64 });
        let options = CallOptions { align: recv_tensor::ALIGN, ..Default::default() };
        let answer = channel.call("/tensorflow.WorkerService/RecvTensor", request, options).await.unwrap();
        let received = recv_tensor::parse(answer.message).unwrap();
        let mut received = received.value.unwrap();
        assert_eq!(received.dtype(), expected.dtype());
        if expected.dtype() == DType::String {
            assert_eq!(&received, expected);
            continue;
        }
        assert_eq!(received.shape(), expected.shape());
        assert_eq!(received.as_bytes().unwrap(), expected.as_bytes().unwrap());
        assert!(received.is_unique(), "{}", received.dtype());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_big_tensor_is_aligned_and_written_in_place() {
    let len = 16 << 20;
    let mut tensor = Tensor::zeros(DType::Float, Shape::vector(len)).unwrap();
    tensor.make_mut::<f32>().unwrap().iter_mut().enumerate().for_each(|(i, value)| *value = i as f32);
    let server = TestServer::tensors(vec![tensor.clone()]);
    let channel = channel(&server);
    for _ in 0..3 {
        let options = CallOptions { align: recv_tensor::ALIGN, ..Default::default() };
        let answer =
            channel.call("/tensorflow.WorkerService/RecvTensor", Parts::empty(), options).await.unwrap();
        let inside = answer.message.as_bytes().as_ptr_range();
        let mut received = recv_tensor::parse(answer.message).unwrap().value.unwrap();
        let start = received.as_bytes().unwrap().as_ptr();
        assert!(inside.contains(&start) && start.addr().is_multiple_of(64));
        assert_eq!(received, tensor);
        assert!(received.is_unique());
        received.make_mut::<f32>().unwrap()[0] = 5.0;
        assert_eq!(received.as_bytes().unwrap().as_ptr(), start, "written where it was received");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_big_feed_is_shared_by_the_decoded_request() {
    let feed = Tensor::from_slice(&vec![1.25f64; 1 << 20], &[1 << 20]).unwrap();
    let small = Tensor::scalar(3i32);
    let rest = RunStepRequest { session_handle: "0123456789abcdef".into(), ..Default::default() };
    let message = tensors::with_named_tensors(2, &[("a:0", &small), ("x:0", &feed)], &rest);
    let server = echo_server();
    let channel = channel(&server);
    let answer = channel.call("/tensorflow.MasterService/CheckFeeds", message, CallOptions::default());
    let answer = answer.await.unwrap();
    assert_eq!(answer.metadata["shared"], "true");
    let request: RunStepRequest = answer.message.decode().unwrap();
    assert_eq!(Tensor::from_proto(request.feed[1].tensor.as_ref().unwrap()).unwrap(), feed);
}

#[tokio::test]
async fn errors_keep_their_code_and_text() {
    let server = echo_server();
    let channel = channel(&server);
    let call = async |method: &str| {
        channel.call(method, Parts::empty(), CallOptions::default()).await.map(|_| ()).unwrap_err()
    };
    let status = call("/tensorflow.WorkerService/Fail").await;
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_eq!(status.text(), "variable 'größe' is not initialised\n\t [[{{node v}} (op VariableV2)]]");
    assert!(call("/tensorflow.WorkerService/FailDerived").await.is_derived());
    assert_eq!(call("/tensorflow.WorkerService/NoSuchMethod").await.code(), Code::Unimplemented);
    let status = call("/tensorflow.WorkerService/Panic").await;
    assert_eq!(status.code(), Code::Internal);
    assert_eq!(
        call("/tensorflow.WorkerService/Fail").await.code(),
        Code::FailedPrecondition,
        "the connection lives on"
    );
}

#[tokio::test]
async fn a_message_beyond_the_limit_is_refused_before_it_is_read() {
    let server = echo_server();
    let channel = channel(&server);
    let big = Tensor::zeros(DType::UInt8, Shape::vector(4 << 20)).unwrap();
    let message = || tensors::recv_tensor_response(&Some(big.clone()), 0);
    let status = channel.call("/tensorflow.WorkerService/Small", message(), CallOptions::default()).await;
    let status = status.map(|_| ()).unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    let options = CallOptions { max_response_bytes: 1000, ..Default::default() };
    let status =
        channel.call("/tensorflow.WorkerService/Echo", message(), options).await.map(|_| ()).unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    let answer =
        channel.call("/tensorflow.WorkerService/Echo", message(), CallOptions::default()).await.unwrap();
    assert_eq!(answer.message.len(), message().len());
}

#[tokio::test]
async fn a_call_ends_at_its_deadline_on_both_sides() {
    let server = echo_server();
    let channel = channel(&server);
    let started = Instant::now();
    let options = CallOptions { deadline: Some(started + Duration::from_millis(100)), ..Default::default() };
    let status = channel
        .call("/tensorflow.WorkerService/Wait", Parts::empty(), options)
        .await
        .map(|_| ())
        .unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert!(started.elapsed() < Duration::from_secs(25));
    server.no_call_waits().await;
}

#[tokio::test]
async fn dropping_a_call_drops_its_handler() {
    let server = echo_server();
    let channel = channel(&server);
    let waiting = channel.call("/tensorflow.WorkerService/Wait", Parts::empty(), CallOptions::default());
    tokio::select! {
        _ = waiting => panic!("nothing answers"),
        () = server.calls_wait(1) => {}
    }
    server.no_call_waits().await;
    assert!(channel.is_connected());
}

#[tokio::test]
async fn closing_a_channel_drops_its_handlers_and_tells_the_server() {
    let server = echo_server();
    let channel = channel(&server);
    let other = channel.clone();
    let waiting = tokio::spawn(async move {
        let _ = other.call("/tensorflow.WorkerService/Wait", Parts::empty(), CallOptions::default()).await;
    });
    server.calls_wait(1).await;
    let connection = server.last_connection();
    assert!(connection.is_open());
    waiting.abort();
    drop(channel);
    server.no_call_waits().await;
    connection.closed().await;
    assert!(!connection.is_open());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_pending_calls_do_not_hold_up_another() {
    let server = echo_server();
    let channel = channel(&server);
    let pending: Vec<_> = (0..1000)
        .map(|_| {
            let channel = channel.clone();
            tokio::spawn(async move {
                channel
                    .call("/tensorflow.WorkerService/Wait", Parts::empty(), CallOptions::default())
                    .await
                    .map(|_| ())
            })
        })
        .collect();
    server.calls_wait(1000).await;
    assert_eq!(channel.stats().calls_outstanding, 1000);
    channel.call("/tensorflow.WorkerService/Echo", Parts::empty(), CallOptions::default()).await.unwrap();
    pending.iter().for_each(|call| call.abort());
    server.no_call_waits().await;
    channel.call("/tensorflow.WorkerService/Echo", Parts::empty(), CallOptions::default()).await.unwrap();
    assert_eq!(server.connections_seen(), 1, "a thousand cancellations do not cost the connection");
}
