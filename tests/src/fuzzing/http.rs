//! A connection to a server: HTTP/2 frames and gRPC messages in them, HTTP/1, and whatever else somebody may send to a port.
//!
//! The server is the real one, with a handler that gives messages back; client and server take turns on one thread.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tensorfleet_core::Result;
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::RecvTensorResponse;
use tensorfleet_rpc::{
    Arrivals, ByteStream, Handler, Limits, Listener, MethodInfo, Network, Page, Parts, Reply, Request,
    recv_tensor, serve,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use super::pieces::Pieces;
use super::sandbox;

/// What every client of HTTP/2 says first.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How long the rest of an answer is waited for.
const PATIENCE: Duration = Duration::from_millis(5);
/// Answers are read up to here.
const MAX_ANSWER_BYTES: u64 = 1 << 20;
/// What a connection holds on its way.
const STREAM_BYTES: usize = 64 << 10;
/// The messages that the handler takes.
const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// A connection. The first byte says whether the rest is what the client sends, or frames of HTTP/2 (type, flags, stream, and
/// a piece for the payload) that follow the client's greeting.
pub fn http(data: &[u8]) {
    thread_local!(static SERVED: RefCell<Option<Served>> = const { RefCell::new(None) });
    sandbox::bound_memory();
    let mut pieces = Pieces::of(data);
    let bytes = match pieces.byte() % 2 {
        0 => pieces.rest().to_vec(),
        _ => frames(&mut pieces),
    };
    SERVED.with_borrow_mut(|served| served.get_or_insert_with(Served::start).talk(&bytes));
}

fn frames(pieces: &mut Pieces<'_>) -> Vec<u8> {
    let mut bytes = PREFACE.to_vec();
    bytes.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
    loop {
        let (kind, flags, stream) = (pieces.byte() % 11, pieces.byte(), pieces.byte());
        let Some(payload) = pieces.piece() else { return bytes };
        let length = payload.len() as u32;
        bytes.extend_from_slice(&length.to_be_bytes()[1..]);
        bytes.extend_from_slice(&[kind, flags, 0, 0, 0, stream]);
        bytes.extend_from_slice(payload);
    }
}

/// A server and the thread it runs on, which is this one.
struct Served {
    runtime: Runtime,
    connect: UnboundedSender<(Box<dyn ByteStream>, SocketAddr)>,
}

impl Served {
    fn start() -> Served {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let (connect, arrivals) = unbounded_channel();
        let listener = Listener::on(&InMemory(Mutex::new(Some(arrivals))), 1).unwrap();
        let serving = serve(
            listener,
            Arc::new(Echo),
            Limits::default(),
            std::future::pending::<()>(),
            Duration::from_secs(1),
        );
        // It lasts as long as the runtime.
        drop(runtime.spawn(serving));
        Served { runtime, connect }
    }

    /// Sends everything, and takes what comes back until the server has nothing more to say.
    fn talk(&self, bytes: &[u8]) {
        self.runtime.block_on(async {
            let (client, server) = tokio::io::duplex(STREAM_BYTES);
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
            self.connect.send((Box::new(server), address)).unwrap();
            let (reader, mut writer) = tokio::io::split(client);
            let talk = async {
                // A server that has seen enough closes the connection.
                let _ = writer.write_all(bytes).await;
                let _ = writer.shutdown().await;
                let mut answer = Vec::new();
                let _ = reader.take(MAX_ANSWER_BYTES).read_to_end(&mut answer).await;
            };
            let _ = timeout(PATIENCE, talk).await;
        });
    }
}

/// A network of one port, on which arrives what it was made with.
#[derive(Debug)]
struct InMemory(Mutex<Option<Arrivals>>);

impl Network for InMemory {
    fn connect(&self, _: &str) -> BoxFuture<'static, io::Result<Box<dyn ByteStream>>> {
        std::future::ready(Err(io::ErrorKind::ConnectionRefused.into())).boxed()
    }

    fn resolve(&self, _: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        std::future::ready(Err(io::ErrorKind::NotFound.into())).boxed()
    }

    fn listen(&self, _: u16) -> io::Result<Arrivals> {
        self.0.lock().take().ok_or_else(|| io::ErrorKind::AddrInUse.into())
    }
}

/// Gives back what it is sent.
struct Echo;

impl Handler for Echo {
    fn method(&self, method: &str) -> Option<MethodInfo> {
        match method {
            "/a.A/Tensor" => Some(MethodInfo {
                max_message_bytes: MAX_MESSAGE_BYTES,
                align: recv_tensor::ALIGN,
                is_vital: false,
            }),
            "/a.A/Small" => Some(MethodInfo { max_message_bytes: 100, align: &[], is_vital: false }),
            _ => None,
        }
    }

    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        async move {
            let message: RecvTensorResponse = request.message.decode()?;
            assert_eq!(RecvTensorResponse::decode(request.message.as_bytes()).as_ref(), Ok(&message));
            Ok(Reply::from(Parts::from_message(&message)))
        }
        .boxed()
    }

    fn page(&self, path: &str) -> Option<Page> {
        (path == "/").then(|| Page { content_type: "text/plain", body: Bytes::from_static(b"here") })
    }
}
