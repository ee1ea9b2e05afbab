//! [`Session`]: a client's session on a server, without a thread that waits for it.
//!
//! The front end's sessions block the threads that use them, and a simulation has no thread to spare. This one makes the
//! same calls, with the same messages, over the same channels.

use std::sync::Arc;
use std::time::Duration;

use tensorfleet_core::{Result, Status, Tensor, clock, entropy};
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::{
    CloseSessionRequest, CloseSessionResponse, CreateSessionRequest, CreateSessionResponse, GraphDef,
    NamedTensorProto, RunStepRequest, RunStepResponse,
};
use tensorfleet_rpc::{CallOptions, Channel, ChannelOptions, Network, Parts};

/// How long a session may take to come about: twice as long as a server waits for its tasks, as in the front end.
const CREATE_TIMEOUT: Duration = Duration::from_secs(120);
/// How long closing may take, as in the front end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// A session.
pub(crate) struct Session {
    network: Arc<dyn Network>,
    channel: Channel,
    handle: String,
}

/// A run of a session.
#[derive(Clone, Copy, Default)]
pub(crate) struct Run<'a> {
    /// Names and values.
    pub(crate) feeds: &'a [(String, Tensor)],
    /// Names of what to give.
    pub(crate) fetches: &'a [String],
    /// Names of what to run besides.
    pub(crate) targets: &'a [String],
    /// Whether the request is sent a second time, over another connection, as TensorFlow 1.15 does when a connection breaks.
    pub(crate) twice: bool,
}

fn channel(network: &Arc<dyn Network>, address: &str) -> Result<Channel> {
    Channel::new(address, ChannelOptions { network: Some(network.clone()), ..ChannelOptions::default() })
}

async fn call<M: Message + Default>(
    channel: &Channel,
    method: &str,
    request: &impl Message,
    options: CallOptions<'_>,
) -> Result<M> {
    let method = format!("/tensorflow.MasterService/{method}");
    channel.call(&method, Parts::from_message(request), options).await?.message.decode()
}

impl Session {
    /// Creates a session on the server at `address`, and waits for one that is not there yet.
    pub(crate) async fn create(
        network: &Arc<dyn Network>,
        address: &str,
        graph: GraphDef,
    ) -> Result<Session> {
        let channel = channel(network, address)?;
        let target = format!("grpc://{address}");
        let request = CreateSessionRequest { graph_def: Some(graph), config: None, target };
        let deadline = clock::deadline_in(CREATE_TIMEOUT);
        let options = CallOptions { deadline, wait_for_ready: true, ..CallOptions::default() };
        let created: CreateSessionResponse = call(&channel, "CreateSession", &request, options).await?;
        Ok(Session { network: network.clone(), channel, handle: created.session_handle })
    }

    /// Runs a step; the fetches in order.
    pub(crate) async fn run(&self, run: Run<'_>) -> Result<Vec<Tensor>> {
        let feed = run.feeds.iter().map(|(name, tensor)| {
            let tensor = Some(tensor.to_proto());
            NamedTensorProto { name: name.clone(), tensor }
        });
        let request = RunStepRequest {
            session_handle: self.handle.clone(),
            feed: feed.collect(),
            fetch: run.fetches.to_vec(),
            target: run.targets.to_vec(),
            request_id: (entropy::nonce() as i64) | 1,
            ..Default::default()
        };
        let once = async |channel: &Channel| -> Result<RunStepResponse> {
            call(channel, "RunStep", &request, CallOptions::default()).await
        };
        let response = match run.twice {
            false => once(&self.channel).await?,
            true => {
                let other = channel(&self.network, self.channel.address())?;
                let (first, second) = tokio::join!(once(&self.channel), once(&other));
                // Whichever was refused as a repetition, the other one has run.
                first.or(second)?
            }
        };
        let values = run.fetches.iter().map(|name| {
            let found = response.tensor.iter().find(|tensor| tensor.name == *name);
            let proto = found.and_then(|found| found.tensor.as_ref());
            Tensor::from_proto(proto.ok_or_else(|| Status::internal(format!("no value for {name}")))?)
        });
        values.collect()
    }

    /// Ends the session.
    pub(crate) async fn close(self) -> Result<()> {
        let request = CloseSessionRequest { session_handle: self.handle.clone() };
        let options = CallOptions { deadline: clock::deadline_in(CLOSE_TIMEOUT), ..CallOptions::default() };
        let _: CloseSessionResponse = call(&self.channel, "CloseSession", &request, options).await?;
        Ok(())
    }
}
