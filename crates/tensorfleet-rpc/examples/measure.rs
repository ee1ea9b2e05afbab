//! Measures what the transport costs: the latency of an empty call, and the rate of a big tensor against plain TCP.
//!
//! `cargo run --release -p tensorfleet-rpc --example measure`. Rates are taken in turns, so that whatever else the
//! machine does disturbs both alike.

#![expect(clippy::disallowed_methods, reason = "a program that measures")]

use std::error::Error;
use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tensorfleet_core::{DType, Result, Shape, Tensor};
use tensorfleet_rpc::{
    CallOptions, Channel, ChannelOptions, Handler, Limits, Listener, MethodInfo, Parts, Reply, Request,
    recv_tensor, serve, tensors,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const BIG_BYTES: usize = 100_000_000;
const ROUNDS: usize = 15;
const CALLS: usize = 5000;

struct Sender(Tensor);

impl Handler for Sender {
    fn method(&self, _: &str) -> Option<MethodInfo> {
        Some(MethodInfo::default())
    }

    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        Box::pin(async move {
            let is_big = request.method.ends_with("RecvTensor");
            let big = || tensors::recv_tensor_response(&Some(self.0.clone()), 1);
            Ok(if is_big { big() } else { Parts::empty() }.into())
        })
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> std::result::Result<(), Box<dyn Error>> {
    let tensor = Tensor::zeros(DType::UInt8, Shape::vector(BIG_BYTES))?;
    let listener = Listener::bind("127.0.0.1:0")?;
    let address = listener.address().to_string();
    let server = tokio::spawn(serve(
        listener,
        Arc::new(Sender(tensor.clone())),
        Limits::default(),
        pending(),
        Duration::ZERO,
    ));
    let channel = Channel::new(&address, ChannelOptions::default())?;

    report("empty call", &latencies(async || call_empty(&channel).await).await?);
    let mut plain = plain_stream(tensor).await?;
    let mut reused = vec![0; BIG_BYTES];
    report("TCP there and back", &latencies(async || ping(&mut plain).await).await?);

    let (mut tcp, mut tcp_fresh, mut rpc) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        tcp.push(timed(pull(&mut plain, &mut reused)).await?);
        tcp_fresh.push(timed(async { pull(&mut plain, &mut vec![0; BIG_BYTES]).await }).await?);
        rpc.push(timed(recv_tensor(&channel)).await?);
    }
    let base = rate("plain TCP into the same memory", &mut tcp);
    rate("plain TCP into fresh memory", &mut tcp_fresh);
    let ours = rate("RecvTensor", &mut rpc);
    println!("RecvTensor moves {:.0} % of plain TCP", 100.0 * ours / base);
    server.abort();
    Ok(())
}

type Outcome = std::result::Result<(), Box<dyn Error>>;

async fn call_empty(channel: &Channel) -> Outcome {
    channel.call("/tensorflow.WorkerService/GetStatus", Parts::empty(), CallOptions::default()).await?;
    Ok(())
}

async fn recv_tensor(channel: &Channel) -> Outcome {
    let options = CallOptions { align: recv_tensor::ALIGN, ..Default::default() };
    let response = channel.call("/tensorflow.WorkerService/RecvTensor", Parts::empty(), options).await?;
    let value = recv_tensor::parse(response.message)?.value;
    assert_eq!(value.map(|tensor| tensor.num_elements()), Some(BIG_BYTES));
    Ok(())
}

/// A stream whose other end answers the byte 0 with itself, and any other with the whole tensor.
async fn plain_stream(tensor: Tensor) -> std::io::Result<TcpStream> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let stream = TcpStream::connect(listener.local_addr()?).await?;
    stream.set_nodelay(true)?;
    let (mut other, _) = listener.accept().await?;
    other.set_nodelay(true)?;
    tokio::spawn(async move {
        while let Ok(byte) = other.read_u8().await {
            let answer = if byte == 0 { &[0][..] } else { tensor.as_bytes().unwrap_or_default() };
            if other.write_all(answer).await.is_err() {
                return;
            }
        }
    });
    Ok(stream)
}

async fn ping(stream: &mut TcpStream) -> Outcome {
    stream.write_u8(0).await?;
    stream.read_u8().await?;
    Ok(())
}

async fn pull(stream: &mut TcpStream, into: &mut [u8]) -> Outcome {
    stream.write_u8(1).await?;
    stream.read_exact(into).await?;
    Ok(())
}

async fn timed(work: impl Future<Output = Outcome>) -> std::result::Result<Duration, Box<dyn Error>> {
    let started = Instant::now();
    work.await?;
    Ok(started.elapsed())
}

async fn latencies(
    mut call: impl AsyncFnMut() -> Outcome,
) -> std::result::Result<Vec<Duration>, Box<dyn Error>> {
    let mut samples = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        samples.push(timed(call()).await?);
    }
    samples.sort();
    Ok(samples)
}

fn report(name: &str, sorted: &[Duration]) {
    let at = |part: usize| sorted[sorted.len() * part / 100].as_secs_f64() * 1e6;
    println!("{name}: median {:.0} µs, 10 % below {:.0} µs, 1 % above {:.0} µs", at(50), at(10), at(99));
}

fn rate(name: &str, samples: &mut [Duration]) -> f64 {
    samples.sort();
    let megabytes_per_second = |duration: Duration| BIG_BYTES as f64 / 1e6 / duration.as_secs_f64();
    let median = megabytes_per_second(samples[samples.len() / 2]);
    println!("{name}: median {median:.0} MB/s, best {:.0} MB/s", megabytes_per_second(samples[0]));
    median
}
