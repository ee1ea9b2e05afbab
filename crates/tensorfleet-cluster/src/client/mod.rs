//! [`RemoteSession`]: a session on the master of some server, ours or TensorFlow's.
//!
//! The calls block and may come from any number of threads; the threads that call serve the socket. A run of
//! a signature names its feeds and fetches the first time; from the second time on it refers to a callable that the
//! master keeps, so that a message carries little but the tensors. Runs with a time-out or a trace, which callables
//! cannot have one by one, always name them.
//!
//! A program often has its session on a server of its own, as every worker of TensorFlow's tutorials does. Repeated runs
//! then reach the master without a socket, and tensors pass by reference.

mod client_channel;
mod waiting;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tensorfleet_core::{Code, Result, Status, Tensor, clock, ensure};
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::run_options::TraceLevel;
use tensorfleet_proto::tensorflow::{
    CallableOptions, CloseSessionRequest, CloseSessionResponse, ConfigProto, CreateSessionRequest,
    CreateSessionResponse, DeviceAttributes, ExtendSessionRequest, ExtendSessionResponse, GraphDef,
    ListDevicesRequest, ListDevicesResponse, MakeCallableRequest, MakeCallableResponse,
    PartialRunSetupRequest, PartialRunSetupResponse, ReleaseCallableRequest, ResetRequest, ResetResponse,
    RunCallableRequest, RunCallableResponse, RunMetadata, RunOptions, RunStepRequest, RunStepResponse,
    TensorProto,
};
use tensorfleet_rpc::{CallOptions, Parts, Response, tensors};
use tensorfleet_runtime::step_errors::session_closed;

use self::client_channel::ClientChannel;
use crate::client_id::ClientId;
use crate::local_tasks::{LocalTask, LocalTasks};
use crate::numbered_request::NumberedRequest;
use crate::wire::status_body::check_body;
use crate::wire::{headers, payloads};
use crate::{address, io, random};

/// Calls that end something are given this long; who is gone needs no goodbye.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// What is dropped waits this long for its last call, so that dropping never takes long.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(2);
/// A session that is dropped rather than closed is given this long.
const DROP_TIMEOUT: Duration = Duration::from_secs(2);
/// How much longer than the server a client waits for a time-out, so that the server's better report arrives first.
const TIMEOUT_MARGIN: Duration = Duration::from_secs(2);
/// How to connect.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// What the session is like.
    pub config: ConfigProto,
    /// How long to wait for the server, and for it to find the tasks it needs.
    pub timeout: Duration,
    /// Who opens the session, if it is to end the client's earlier ones.
    pub client: Option<ClientId>,
}

impl Default for ConnectOptions {
    /// Two minutes: twice as long as a server of ours waits for its tasks.
    fn default() -> ConnectOptions {
        ConnectOptions { config: ConfigProto::default(), timeout: Duration::from_secs(120), client: None }
    }
}

/// How one run behaves.
#[derive(Clone, Debug, Default)]
pub struct RemoteRunOptions {
    /// Gives up after this time with `DeadlineExceeded`.
    pub timeout: Option<Duration>,
    /// Asks for a record of the run: what ran where and when, and the graph of each task.
    pub is_traced: bool,
    /// The number of the run among those of its client ([`ConnectOptions::client`]). Repeated with the same number, in the same or
    /// in another session of the client, it writes no variable twice; a client's numbers grow from run to run.
    pub number: Option<u64>,
}

/// A session on a server. Dropping it closes it.
pub struct RemoteSession {
    link: Arc<Link>,
    /// The version of the graph on the server.
    graph_version: Mutex<i64>,
}

/// What a session and its callables share.
struct Link {
    channel: ClientChannel,
    handle: String,
    /// Time-out of runs that have none of their own.
    operation_timeout: Option<Duration>,
    /// Who has opened the session, if it said so.
    client: Option<ClientId>,
    is_closed: AtomicBool,
    /// The task, if its server lives in this process.
    task: Option<Weak<dyn LocalTask>>,
}

impl RemoteSession {
    /// Creates a session on `target` (`grpc://host:port`, or `host:port`) with `graph` for a start. Waits for a server
    /// that is not there yet and says so every few seconds.
    pub fn create(target: &str, graph: GraphDef, options: ConnectOptions) -> Result<RemoteSession> {
        let channel = ClientChannel::new(&address::from_target(target)?)?;
        // As in TensorFlow, a negative time means none, like 0.
        let millis = u64::try_from(options.config.operation_timeout_in_ms).unwrap_or(0);
        let operation_timeout = (millis > 0).then(|| Duration::from_millis(millis));
        let request = CreateSessionRequest {
            graph_def: Some(graph),
            config: Some(options.config),
            target: target.to_string(),
        };
        let client = options.client.map(|client| client.to_string());
        let metadata = [(headers::CLIENT, client.as_deref().unwrap_or_default())];
        let created = channel.call_when_ready(
            "a session",
            "/tensorflow.MasterService/CreateSession",
            Parts::from_message(&request),
            options.timeout,
            if client.is_some() { &metadata } else { &[] },
        );
        let created: CreateSessionResponse = created
            .map_err(|status| status.context(format!("no session on '{target}'")))?
            .message
            .decode()?;
        let link = Link {
            channel,
            task: LocalTasks::of_process().with_session(&created.session_handle),
            handle: created.session_handle,
            operation_timeout,
            client: options.client,
            is_closed: AtomicBool::new(false),
        };
        Ok(RemoteSession { link: Arc::new(link), graph_version: Mutex::new(created.graph_version) })
    }

    /// The name the server knows the session by.
    pub fn handle(&self) -> &str {
        &self.link.handle
    }

    /// Adds nodes to the graph.
    pub fn extend(&self, graph: GraphDef) -> Result<()> {
        let version = self.graph_version.lock();
        let current = *version;
        self.extend_from(version, graph, current)
    }

    /// Adds nodes to the graph if its version is still `expected`; `Aborted` if somebody else has extended it.
    pub fn extend_version(&self, graph: GraphDef, expected: i64) -> Result<()> {
        self.extend_from(self.graph_version.lock(), graph, expected)
    }

    /// The version stays locked during the call: the server accepts one extension after the other.
    fn extend_from(&self, mut version: MutexGuard<'_, i64>, graph: GraphDef, expected: i64) -> Result<()> {
        self.link.check_open()?;
        let request = ExtendSessionRequest {
            session_handle: self.link.handle.clone(),
            graph_def: Some(graph),
            current_graph_version: expected,
        };
        let response: ExtendSessionResponse = self.link.call("ExtendSession", &request, None)?;
        *version = response.new_graph_version;
        Ok(())
    }

    /// Runs what `fetches` and `targets` need, with `feeds` in place of the tensors they name. Gives the fetched tensors
    /// in order, and the record of the run if it was asked for.
    pub fn run(
        &self,
        feeds: &[(&str, &Tensor)],
        fetches: &[&str],
        targets: &[&str],
        options: &RemoteRunOptions,
    ) -> Result<(Vec<Tensor>, RunMetadata)> {
        self.link.run_step(feeds, fetches, targets, options, "")
    }

    /// Prepares a run that will be repeated.
    pub fn make_callable(&self, feeds: &[&str], fetches: &[&str], targets: &[&str]) -> RemoteCallable {
        let owned = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
        RemoteCallable {
            link: self.link.clone(),
            feeds: owned(feeds),
            fetches: owned(fetches),
            targets: owned(targets),
            has_run: AtomicBool::new(false),
            kept: Mutex::new(None),
        }
    }

    /// Begins a run that gets its feeds and gives its fetches little by little.
    pub fn begin_partial_run(
        &self,
        feeds: &[&str],
        fetches: &[&str],
        targets: &[&str],
    ) -> Result<RemotePartialRun> {
        self.link.check_open()?;
        let owned = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
        let request = PartialRunSetupRequest {
            session_handle: self.link.handle.clone(),
            feed: owned(feeds),
            fetch: owned(fetches),
            target: owned(targets),
            request_id: random::request_id(),
        };
        let response: PartialRunSetupResponse =
            self.link.call("PartialRunSetup", &request, self.link.operation_timeout)?;
        ensure!(
            !response.partial_run_handle.is_empty(),
            Internal,
            "the server at {} gave no handle for a partial run",
            self.link.channel.address()
        );
        Ok(RemotePartialRun { link: self.link.clone(), handle: response.partial_run_handle })
    }

    /// The devices that nodes can be placed on.
    pub fn list_devices(&self) -> Result<Vec<DeviceAttributes>> {
        self.link.check_open()?;
        let request = ListDevicesRequest { session_handle: self.link.handle.clone() };
        let response: ListDevicesResponse =
            self.link.call("ListDevices", &request, Some(ConnectOptions::default().timeout))?;
        Ok(response.local_device.into_iter().chain(response.remote_device).collect())
    }

    /// Ends the session. Running steps are cancelled, later ones refused.
    pub fn close(&self) -> Result<()> {
        self.close_within(CLOSE_TIMEOUT)
    }

    fn close_within(&self, timeout: Duration) -> Result<()> {
        if self.link.is_closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let request = CloseSessionRequest { session_handle: self.link.handle.clone() };
        let closed: Result<CloseSessionResponse> = self.link.call("CloseSession", &request, Some(timeout));
        match closed {
            // Whoever has restarted or is gone has ended the session already.
            Err(status) if !matches!(status.code(), Code::Aborted | Code::Unavailable | Code::NotFound) => {
                Err(status)
            }
            _ => Ok(()),
        }
    }
}

impl Drop for RemoteSession {
    /// Waits for a moment: at the end of a program nobody would send the message after this returns.
    fn drop(&mut self) {
        if let Err(status) = self.close_within(DROP_TIMEOUT) {
            tracing::debug!("CloseSession on {}: {status}", self.link.channel.address());
        }
    }
}

/// Clears the containers named (the default one if none is) on all tasks that the server at `target` knows and the
/// filters let through, and ends the server's sessions.
pub fn reset(target: &str, containers: &[&str], device_filters: &[&str], timeout: Duration) -> Result<()> {
    let channel = ClientChannel::new(&address::from_target(target)?)?;
    let request = ResetRequest {
        container: containers.iter().map(|name| name.to_string()).collect(),
        device_filters: device_filters.iter().map(|filter| filter.to_string()).collect(),
    };
    let message = Parts::from_message(&request);
    let reset = channel.call_when_ready("a reset", "/tensorflow.MasterService/Reset", message, timeout, &[]);
    let _: ResetResponse =
        reset.map_err(|status| status.context(format!("reset of '{target}'")))?.message.decode()?;
    Ok(())
}

impl Link {
    fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(session_closed());
        }
        Ok(())
    }

    /// The task, if its server lives in this process and is not about to end: what an end means for a call is the
    /// channel's business.
    fn local_task(&self) -> Option<Arc<dyn LocalTask>> {
        self.task.as_ref()?.upgrade().filter(|task| !task.is_stopping())
    }

    /// A call of the master service that carries no tensors.
    fn call<M: Message + Default>(
        &self,
        method: &str,
        request: &impl Message,
        timeout: Option<Duration>,
    ) -> Result<M> {
        let deadline = timeout.and_then(clock::deadline_in);
        let options = CallOptions { deadline, ..CallOptions::default() };
        let method = format!("/tensorflow.MasterService/{method}");
        self.channel.call(&method, Parts::from_message(request), options)?.message.decode()
    }

    /// A call that runs something. A server of this process says by itself for whom it waits.
    fn call_run(&self, method: &str, message: Parts, options: CallOptions<'_>) -> Result<Response> {
        match self.task {
            Some(_) => self.channel.call(method, message, options),
            None => self.channel.call_for_run(&self.handle, method, message, options),
        }
    }

    /// A last call, whose answer changes nothing.
    fn notify(&self, method: &'static str, message: Parts) {
        let options = CallOptions { deadline: clock::deadline_in(NOTIFY_TIMEOUT), ..CallOptions::default() };
        if let Err(status) = self.channel.call(method, message, options) {
            tracing::debug!("{method} on {}: {status}", self.channel.address());
        }
    }

    /// The run's number as tasks know it.
    fn numbered(&self, options: &RemoteRunOptions) -> Option<NumberedRequest> {
        Some(NumberedRequest::new(self.client?, options.number?))
    }

    fn run_step(
        &self,
        feeds: &[(&str, &Tensor)],
        fetches: &[&str],
        targets: &[&str],
        options: &RemoteRunOptions,
        partial_run: &str,
    ) -> Result<(Vec<Tensor>, RunMetadata)> {
        self.check_open()?;
        let timeout = options.timeout.or(self.operation_timeout);
        let trace_level = if options.is_traced { TraceLevel::FullTrace } else { TraceLevel::NoTrace };
        let rest = RunStepRequest {
            session_handle: self.handle.clone(),
            fetch: fetches.iter().map(|name| name.to_string()).collect(),
            target: targets.iter().map(|name| name.to_string()).collect(),
            options: Some(RunOptions {
                trace_level: trace_level as i32,
                timeout_in_ms: timeout.map_or(0, whole_millis),
                output_partition_graphs: options.is_traced,
                ..Default::default()
            }),
            partial_run_handle: partial_run.to_string(),
            store_errors_in_response_body: true,
            request_id: random::request_id(),
            ..Default::default()
        };
        let message = tensors::with_named_tensors(payloads::RUN_STEP_FEED, feeds, &rest);
        let numbered = self.numbered(options).map(|numbered| numbered.to_string());
        let metadata = [(headers::REQUEST, numbered.as_deref().unwrap_or_default())];
        let call = CallOptions {
            metadata: if numbered.is_some() { &metadata } else { &[] },
            deadline: timeout.and_then(|timeout| clock::deadline_in(timeout.saturating_add(TIMEOUT_MARGIN))),
            align: payloads::RUN_STEP_RESPONSE,
            ..CallOptions::default()
        };
        let response = self.call_run("/tensorflow.MasterService/RunStep", message, call)?;
        let mut response: RunStepResponse = response.message.decode()?;
        check_body(response.status_code, &response.status_error_message)?;
        let metadata = response.metadata.take().unwrap_or_default();
        Ok((in_order(fetches, response)?, metadata))
    }
}

/// A time-out for the wire, where 0 would mean none.
fn whole_millis(timeout: Duration) -> i64 {
    i64::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(i64::MAX).max(1)
}

/// The tensors of a response in the order of the fetches. Servers answer in that order, but do not promise it.
fn in_order(fetches: &[&str], response: RunStepResponse) -> Result<Vec<Tensor>> {
    let given = response.tensor;
    let mut tensors = Vec::with_capacity(fetches.len());
    for (position, fetch) in fetches.iter().enumerate() {
        let at = match given.get(position) {
            Some(named) if named.name == **fetch => position,
            _ => given.iter().position(|named| named.name == **fetch).ok_or_else(|| {
                Status::internal(format!("the server gave no tensor for '{fetch}', which was asked for"))
            })?,
        };
        // A name that was asked for twice is answered once.
        let proto = given.get(at).and_then(|named| named.tensor.as_ref());
        tensors.push(received(proto, fetch)?);
    }
    Ok(tensors)
}

fn received(proto: Option<&TensorProto>, name: &str) -> Result<Tensor> {
    let proto = proto.ok_or_else(|| Status::internal(format!("the server gave '{name}' without a value")))?;
    Tensor::from_proto(proto).map_err(|status| status.context(format!("the server's value of '{name}'")))
}

/// A run that is repeated.
pub struct RemoteCallable {
    link: Arc<Link>,
    feeds: Vec<String>,
    fetches: Vec<String>,
    targets: Vec<String>,
    has_run: AtomicBool,
    /// The handle of the callable that the server keeps, once it does.
    kept: Mutex<Option<i64>>,
}

impl RemoteCallable {
    /// Runs with one value for each feed, in order.
    pub fn run(&self, feeds: &[Tensor], options: &RemoteRunOptions) -> Result<(Vec<Tensor>, RunMetadata)> {
        ensure!(
            feeds.len() == self.feeds.len(),
            InvalidArgument,
            "Expected {} feed tensors, but got {}",
            self.feeds.len(),
            feeds.len()
        );
        let is_first = !self.has_run.swap(true, Ordering::AcqRel);
        let timeout = options.timeout.or(self.link.operation_timeout);
        if is_first || options.is_traced || timeout.is_some() {
            let named: Vec<(&str, &Tensor)> = self.feeds.iter().map(String::as_str).zip(feeds).collect();
            let (fetches, targets) = (as_strs(&self.fetches), as_strs(&self.targets));
            return self.link.run_step(&named, &fetches, &targets, options, "");
        }
        let handle = self.kept_handle()?;
        if let Some(task) = self.link.local_task() {
            let (session, feeds) = (self.link.handle.clone(), feeds.to_vec());
            let numbered = self.link.numbered(options);
            return io::run(async move { task.run_callable(session, handle, feeds, numbered).await })?;
        }
        let rest = RunCallableRequest {
            session_handle: self.link.handle.clone(),
            handle,
            request_id: random::request_id(),
            ..Default::default()
        };
        let message =
            tensors::with_tensors(payloads::RUN_CALLABLE_FEED, &feeds.iter().collect::<Vec<_>>(), &rest);
        let numbered = self.link.numbered(options).map(|numbered| numbered.to_string());
        let metadata = [(headers::REQUEST, numbered.as_deref().unwrap_or_default())];
        let call = CallOptions {
            metadata: if numbered.is_some() { &metadata } else { &[] },
            align: payloads::RUN_CALLABLE_RESPONSE,
            ..CallOptions::default()
        };
        let response = self.link.call_run("/tensorflow.MasterService/RunCallable", message, call)?;
        let response: RunCallableResponse = response.message.decode()?;
        ensure!(
            response.fetch.len() == self.fetches.len(),
            Internal,
            "the server gave {} tensors where {} were asked for",
            response.fetch.len(),
            self.fetches.len()
        );
        let named = response.fetch.iter().zip(&self.fetches);
        let tensors = named.map(|(proto, name)| received(Some(proto), name)).collect::<Result<_>>()?;
        Ok((tensors, response.metadata.unwrap_or_default()))
    }

    fn kept_handle(&self) -> Result<i64> {
        self.link.check_open()?;
        // Held during the call: whoever else runs this meanwhile needs the same answer.
        let mut kept = self.kept.lock();
        if let Some(handle) = *kept {
            return Ok(handle);
        }
        let options = CallableOptions {
            feed: self.feeds.clone(),
            fetch: self.fetches.clone(),
            target: self.targets.clone(),
            ..Default::default()
        };
        let request = MakeCallableRequest {
            session_handle: self.link.handle.clone(),
            options: Some(options),
            request_id: random::request_id(),
        };
        let response: MakeCallableResponse = self.link.call("MakeCallable", &request, None)?;
        *kept = Some(response.handle);
        Ok(response.handle)
    }
}

impl Drop for RemoteCallable {
    fn drop(&mut self) {
        let Some(handle) = *self.kept.get_mut() else { return };
        // Callables end with their session.
        if self.link.is_closed.load(Ordering::Acquire) {
            return;
        }
        let request = ReleaseCallableRequest { session_handle: self.link.handle.clone(), handle };
        self.link.notify("/tensorflow.MasterService/ReleaseCallable", Parts::from_message(&request));
    }
}

fn as_strs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// A run in parts: feeds are given and fetches taken when they are at hand. It is over when all fetches have been taken.
pub struct RemotePartialRun {
    link: Arc<Link>,
    handle: String,
}

impl RemotePartialRun {
    /// Gives some of the feeds and takes some of the fetches; waits for these.
    pub fn run(&self, feeds: &[(&str, &Tensor)], fetches: &[&str]) -> Result<Vec<Tensor>> {
        let (tensors, _) =
            self.link.run_step(feeds, fetches, &[], &RemoteRunOptions::default(), &self.handle)?;
        Ok(tensors)
    }
}
