//! A server with methods that echo, fail, wait and panic, on a port of its own.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tensorfleet_core::{Result, Status, Tensor};
use tensorfleet_proto::tensorflow::{CleanupGraphRequest, RunStepRequest};
use tensorfleet_rpc::{
    Channel, ChannelOptions, Connection, Handler, Limits, Listener, MethodInfo, Page, Parts, PartsBuilder,
    Reply, Request, serve, tensors,
};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

pub(crate) struct TestServer {
    pub(crate) port: u16,
    handler: Arc<TestHandler>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<()>>,
}

pub(crate) fn echo_server() -> TestServer {
    TestServer::start(0, Vec::new())
}

/// An echo server that does not wait long for the rest of a message.
pub(crate) fn impatient_server(stall_timeout: Duration) -> TestServer {
    TestServer::with_limits(0, Vec::new(), Limits { stall_timeout, ..Limits::default() })
}

pub(crate) fn channel(server: &TestServer) -> Channel {
    Channel::new(&format!("127.0.0.1:{}", server.port), ChannelOptions::default()).unwrap()
}

impl TestServer {
    pub(crate) fn tensors(tensors: Vec<Tensor>) -> TestServer {
        TestServer::start(0, tensors)
    }

    pub(crate) fn start(port: u16, tensors: Vec<Tensor>) -> TestServer {
        TestServer::with_limits(port, tensors, Limits::default())
    }

    /// An echo server with these limits.
    pub(crate) fn limited(limits: Limits) -> TestServer {
        TestServer::with_limits(0, Vec::new(), limits)
    }

    fn with_limits(port: u16, tensors: Vec<Tensor>, limits: Limits) -> TestServer {
        let listener = Listener::bind(&format!("127.0.0.1:{port}")).unwrap();
        let port = listener.address().port();
        let handler = Arc::new(TestHandler {
            tensors,
            waiting: watch::channel(0).0,
            connections: Mutex::default(),
            release: watch::channel(false).0,
        });
        let (stop, stopped) = oneshot::channel();
        let stopped = async { drop(stopped.await) };
        let task = tokio::spawn(serve(listener, handler.clone(), limits, stopped, Duration::from_secs(20)));
        TestServer { port, handler, stop: Some(stop), task }
    }

    /// Completes when `count` calls of `Wait` are waiting.
    pub(crate) async fn calls_wait(&self, count: usize) {
        self.handler.waiting.subscribe().wait_for(|&waiting| waiting == count).await.unwrap();
    }

    /// How many calls of `Wait` are waiting.
    pub(crate) fn waiting(&self) -> usize {
        *self.handler.waiting.borrow()
    }

    pub(crate) async fn no_call_waits(&self) {
        self.calls_wait(0).await;
    }

    /// Lets all calls of `Wait` finish.
    pub(crate) fn release(&self) {
        self.handler.release.send_replace(true);
    }

    pub(crate) fn last_connection(&self) -> Connection {
        self.handler.connections.lock().last().unwrap().clone()
    }

    pub(crate) fn connections_seen(&self) -> usize {
        self.handler.connections.lock().iter().map(Connection::id).collect::<BTreeSet<_>>().len()
    }

    /// Asks the server to stop; does not wait for it.
    pub(crate) fn begin_stop(&mut self) {
        self.stop.take();
    }

    /// Waits for a server that was asked to stop.
    pub(crate) async fn stopped(self) {
        self.task.await.unwrap().unwrap();
    }

    /// Closes everything at once.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

struct TestHandler {
    tensors: Vec<Tensor>,
    waiting: watch::Sender<usize>,
    release: watch::Sender<bool>,
    connections: Mutex<Vec<Connection>>,
}

struct Waiting<'a>(&'a watch::Sender<usize>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting -= 1);
    }
}

impl Handler for TestHandler {
    fn method(&self, method: &str) -> Option<MethodInfo> {
        match method.rsplit_once('/')?.1 {
            "NoSuchMethod" => None,
            "Vital" => Some(MethodInfo { is_vital: true, ..Default::default() }),
            "Small" => Some(MethodInfo { max_message_bytes: 1000, ..Default::default() }),
            "CheckFeeds" => Some(MethodInfo { align: &[2, 2, 4], ..Default::default() }),
            _ => Some(MethodInfo::default()),
        }
    }

    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        Box::pin(self.answer(request))
    }

    fn page(&self, path: &str) -> Option<Page> {
        let page = Page { content_type: "application/json", body: "{\"ok\":true}".into() };
        (path == "/status").then_some(page)
    }
}

impl TestHandler {
    async fn answer(&self, request: Request) -> Result<Reply> {
        self.connections.lock().push(request.connection.clone());
        let (_, method) = request.method.rsplit_once('/').unwrap();
        match method {
            "Echo" | "Small" | "Vital" => Ok(echo(&request).into()),
            "Metadata" => {
                let mut reply = Reply::from(Parts::empty());
                reply.metadata.insert("tf-rpc", request.metadata["tf-rpc"].clone());
                reply.metadata.insert("seen-method", request.method.parse().unwrap());
                Ok(reply)
            }
            "CheckFeeds" => {
                let decoded: RunStepRequest = request.message.decode()?;
                let feed = Tensor::from_proto(decoded.feed[1].tensor.as_ref().unwrap())?;
                let inside = request.message.as_bytes().as_ptr_range();
                let mut reply = Reply::from(echo(&request));
                let shared = inside.contains(&feed.as_bytes()?.as_ptr());
                reply.metadata.insert("shared", if shared { "true" } else { "false" }.parse().unwrap());
                Ok(reply)
            }
            "RecvTensor" => {
                let index = request.message.decode::<CleanupGraphRequest>()?.step_id as usize;
                Ok(tensors::recv_tensor_response(&self.tensors.get(index).cloned(), 7).into())
            }
            "Fail" => {
                let status = Status::failed_precondition("variable 'größe' is not initialised");
                Err(status.at_node("v", "VariableV2", ""))
            }
            "FailDerived" => Err(Status::cancelled("because of another").derived()),
            "Panic" => panic!("a handler panics (on purpose)"),
            _ => {
                self.waiting.send_modify(|waiting| *waiting += 1);
                let _waiting = Waiting(&self.waiting);
                let _ = self.release.subscribe().wait_for(|&released| released).await;
                Ok(Parts::empty().into())
            }
        }
    }
}

fn echo(request: &Request) -> Parts {
    let mut parts = PartsBuilder::with_capacity(0);
    parts.put_shared(request.message.to_bytes());
    parts.finish()
}
