//! [`PartialRun`]: one run whose feeds are given, and whose results are taken, little by little.
//!
//! What a run will be fed and asked for is said at its start. Then values are fed as they become known, and results
//! taken as soon as they can be computed; what has been computed for one result is not computed again for the next.

use smallvec::SmallVec;
use tensorfleet_core::{Endpoint, NodeId, Result, Status, Tensor, ensure};
use tensorfleet_kernel::builder::GraphBuilder;

use super::backend::BegunPartialRun;
use super::fetch::{Fetch, Request, Results};
use super::session::{Feed, Session, tensor_name};
use crate::graph::{Graph, IntoTensor, Output};

/// A run in parts; see [`Session::partial_run`].
pub struct PartialRun<'a> {
    session: &'a Session,
    run: BegunPartialRun,
}

impl Session {
    /// Begins a run in parts, which will be fed `feeds` and asked for `fetch`. Operations in `fetch` run as soon as
    /// they can. It is over when everything has been fed and taken.
    ///
    /// ```
    /// # use tensorfleet::{DType, Graph, Session};
    /// let g = Graph::new();
    /// let (x, y) = (g.placeholder(DType::Float, ()), g.placeholder(DType::Float, ()));
    /// let doubled = &x * 2.0;
    /// let sum = &doubled + &y;
    ///
    /// let session = Session::new(&g);
    /// let run = session.partial_run(&[&x, &y], (&doubled, &sum))?;
    /// let doubled = run.feed(&x, 3.0).run(&doubled)?.to_scalar::<f32>()?;
    /// let sum = run.feed(&y, doubled + 1.0).run(&sum)?.to_scalar::<f32>()?;
    /// assert_eq!((doubled, sum), (6.0, 13.0));
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn partial_run<F: Fetch>(&self, feeds: &[&Output], fetch: F) -> Result<PartialRun<'_>> {
        let mut request = Request::new(self.graph());
        fetch.request(&mut request)?;
        self.extend_to_graph()?;
        let feeds: Vec<Endpoint> =
            feeds.iter().map(|output| output.endpoint_in(self.graph())).collect::<Result<_>>()?;
        let (feeds, fetches, targets) = self.graph().build(|builder| {
            let targets = request.targets.iter().map(|&node| builder.node(node).name.to_string());
            (names(builder, &feeds), names(builder, &request.fetches), targets.collect::<Vec<_>>())
        });
        let run =
            self.backend().begin_partial_run(&as_strs(&feeds), &as_strs(&fetches), &as_strs(&targets))?;
        Ok(PartialRun { session: self, run })
    }
}

/// A run in parts by the numbers of nodes, for front ends of other languages; see [`Session::partial_run_endpoints`].
pub struct EndpointsPartialRun {
    graph: Graph,
    run: BegunPartialRun,
}

impl Session {
    /// A [`Session::partial_run`] by the numbers of nodes.
    pub fn partial_run_endpoints(
        &self,
        feeds: &[Endpoint],
        fetches: &[Endpoint],
        targets: &[NodeId],
    ) -> Result<EndpointsPartialRun> {
        self.extend_to_graph()?;
        let (feeds, fetches, targets) = self.graph().build(|builder| {
            let targets = targets.iter().map(|&node| builder.node(node).name.to_string());
            (names(builder, feeds), names(builder, fetches), targets.collect::<Vec<_>>())
        });
        let run =
            self.backend().begin_partial_run(&as_strs(&feeds), &as_strs(&fetches), &as_strs(&targets))?;
        Ok(EndpointsPartialRun { graph: self.graph().clone(), run })
    }
}

impl EndpointsPartialRun {
    /// Gives some of the feeds and waits for some of the fetches.
    pub fn run(&self, feeds: Vec<(Endpoint, Tensor)>, fetches: &[Endpoint]) -> Result<Vec<Tensor>> {
        let (named, fetches) = self.graph.build(|builder| -> Result<_> {
            for (endpoint, value) in &feeds {
                Feed::of(builder, *endpoint)?.check(value)?;
            }
            let named = feeds.iter().map(|(endpoint, _)| tensor_name(builder, *endpoint));
            Ok((named.collect::<Vec<_>>(), names(builder, fetches)))
        })?;
        let fed: Vec<(&str, Tensor)> =
            named.iter().zip(feeds).map(|(name, (_, value))| (name.as_str(), value)).collect();
        self.run.run(&fed, &as_strs(&fetches))
    }
}

impl PartialRun<'_> {
    /// Feeds `value` in place of `output`, which was named at the start.
    pub fn feed(&self, output: &Output, value: impl IntoTensor) -> PartialStep<'_> {
        self.step().feed(output, value)
    }

    /// A part that feeds nothing yet.
    pub fn step(&self) -> PartialStep<'_> {
        PartialStep { run: self, feeds: SmallVec::new(), error: None }
    }

    fn graph(&self) -> &Graph {
        self.session.graph()
    }
}

/// A part of a [`PartialRun`] about to be run.
#[must_use = "nothing runs before `run`"]
pub struct PartialStep<'a> {
    run: &'a PartialRun<'a>,
    feeds: SmallVec<[(Endpoint, Tensor); 4]>,
    /// The first thing that went wrong, reported by `run`.
    error: Option<Status>,
}

impl PartialStep<'_> {
    /// Feeds `value` in place of `output`. A literal takes the dtype of the output.
    pub fn feed(mut self, output: &Output, value: impl IntoTensor) -> Self {
        let feed = || Ok((output.endpoint_in(self.run.graph())?, output.adapted(value)?));
        match feed() {
            Ok(feed) => self.feeds.push(feed),
            Err(status) => self.error = self.error.or(Some(status)),
        }
        self
    }

    /// Gives the feeds and waits for the values of `fetch`, which were named at the start.
    pub fn run<F: Fetch>(self, fetch: F) -> Result<F::Value> {
        if let Some(status) = self.error {
            return Err(status);
        }
        let mut request = Request::new(self.run.graph());
        fetch.request(&mut request)?;
        ensure!(
            request.targets.is_empty(),
            InvalidArgument,
            "Operations of a partial run are named at its start and run as soon as they can"
        );
        let (feeds, fetches) = self.run.graph().build(|builder| -> Result<_> {
            for (endpoint, value) in &self.feeds {
                Feed::of(builder, *endpoint)?.check(value)?;
            }
            let feeds = self.feeds.iter().map(|(endpoint, _)| tensor_name(builder, *endpoint));
            Ok((feeds.collect::<Vec<_>>(), names(builder, &request.fetches)))
        })?;
        let named: Vec<(&str, Tensor)> =
            feeds.iter().zip(self.feeds).map(|(name, (_, value))| (name.as_str(), value)).collect();
        let results = self.run.run.run(&named, &as_strs(&fetches))?;
        fetch.take(&mut Results::new(results))
    }
}

fn names(builder: &GraphBuilder, endpoints: &[Endpoint]) -> Vec<String> {
    endpoints.iter().map(|&endpoint| tensor_name(builder, endpoint)).collect()
}

fn as_strs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}
