//! [`Progress`]: how far a partial run has come: one step whose feeds arrive, and whose fetches are asked for, in several
//! calls.
//!
//! What a run will be fed and asked for is declared when it is set up. Each call is checked against that and against
//! what has happened before; errors are TensorFlow's and leave the run as it was. Nothing is run or sent here: a session
//! of this process and a master do that, each in its way.

use rustc_hash::FxHashSet;
use tensorfleet_core::{DType, NodeId, Result, Status, Tensor, bail, ensure, parse_endpoint};

use crate::checked_graph::CheckedGraph;
use crate::plan::Signature;
use crate::step_errors::check_feed;

/// What a partial run was set up for, and what of it has been done.
pub struct Progress {
    signature: Signature,
    feed_dtypes: Vec<DType>,
    fetch_needs: Vec<Vec<usize>>,
    is_fed: Vec<bool>,
    is_fetched: Vec<bool>,
}

/// What one call of a partial run feeds and fetches, by number in the signature.
pub struct Part {
    /// The feeds.
    pub feeds: Vec<(usize, Tensor)>,
    /// The fetches.
    pub fetches: Vec<usize>,
}

impl Progress {
    /// A run of which nothing has been done. `fetch_needs` come from [`fetch_needs`].
    pub fn new(signature: Signature, feed_dtypes: Vec<DType>, fetch_needs: Vec<Vec<usize>>) -> Progress {
        let is_fed = vec![false; signature.feeds.len()];
        let is_fetched = vec![false; signature.fetches.len()];
        Progress { signature, feed_dtypes, fetch_needs, is_fed, is_fetched }
    }

    /// What the run was set up for.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Whether everything has been fed and fetched.
    pub fn is_complete(&self) -> bool {
        self.is_fed.iter().chain(&self.is_fetched).all(|&done| done)
    }

    /// Checks a call against what was declared and done before, and notes it.
    pub fn note(
        &mut self,
        feeds: impl IntoIterator<Item = (impl AsRef<str>, Tensor)>,
        fetches: &[impl AsRef<str>],
    ) -> Result<Part> {
        let mut part = Part { feeds: Vec::new(), fetches: Vec::with_capacity(fetches.len()) };
        let (mut is_fed, mut is_fetched) = (self.is_fed.clone(), self.is_fetched.clone());
        for (name, tensor) in feeds {
            let name = name.as_ref();
            let index = find(&self.signature.feeds, name).ok_or_else(|| {
                Status::invalid_argument(format!("The feed {name} was not specified in partial_run_setup."))
            })?;
            ensure!(!is_fed[index], InvalidArgument, "The feed {name} has already been fed.");
            check_feed(name, self.feed_dtypes[index], &tensor)?;
            is_fed[index] = true;
            part.feeds.push((index, tensor));
        }
        for name in fetches {
            let name = name.as_ref();
            let index = find(&self.signature.fetches, name).ok_or_else(|| {
                Status::invalid_argument(format!("The fetch {name} was not specified in partial_run_setup."))
            })?;
            ensure!(!is_fetched[index], InvalidArgument, "The fetch {name} has already been fetched.");
            if let Some(&missing) = self.fetch_needs[index].iter().find(|&&feed| !is_fed[feed]) {
                bail!(
                    InvalidArgument,
                    "Fetch {name} can't be computed from the feeds that have been fed so far: {} is missing.",
                    self.signature.feeds[missing]
                );
            }
            is_fetched[index] = true;
            part.fetches.push(index);
        }
        (self.is_fed, self.is_fetched) = (is_fed, is_fetched);
        Ok(part)
    }
}

/// A call of a run that was never set up, or is over.
#[cold]
pub fn not_set_up(handle: &str) -> Status {
    Status::invalid_argument(format!("Must run 'setup' before performing partial runs: '{handle}'"))
}

/// Names each fetched tensor once: counted twice, a run would never be complete.
pub fn without_repeated_fetches(mut signature: Signature) -> Signature {
    let mut seen = FxHashSet::default();
    signature.fetches.retain(|name| match parse_endpoint(name) {
        Ok((node, slot)) => seen.insert((node.to_string(), slot)),
        // Planning will say what is wrong with it.
        Err(_) => true,
    });
    signature
}

/// For each fetch, the numbers of the feeds it depends on.
pub fn fetch_needs(checked: &CheckedGraph, signature: &Signature) -> Result<Vec<Vec<usize>>> {
    let graph = checked.graph();
    let resolve = |name: &String| {
        let (node, slot) = parse_endpoint(name)?;
        let id = graph.find(node).ok_or_else(|| Status::not_found(format!("{name} is not in the graph")))?;
        Ok::<(NodeId, u32), Status>((id, slot))
    };
    let feeds: Vec<(NodeId, u32)> = signature.feeds.iter().map(resolve).collect::<Result<_>>()?;
    let mut needs = Vec::with_capacity(signature.fetches.len());
    for fetch in &signature.fetches {
        let mut found = Vec::new();
        let mut seen = vec![false; graph.len()];
        let mut stack = vec![resolve(fetch)?.0];
        while let Some(id) = stack.pop() {
            if std::mem::replace(&mut seen[id.index()], true) {
                continue;
            }
            let node = graph.node(id);
            for input in &node.inputs {
                match feeds.iter().position(|&feed| feed == (input.node, input.slot)) {
                    Some(feed) => found.push(feed),
                    None => stack.push(input.node),
                }
            }
            stack.extend(node.control_inputs.iter().copied());
        }
        found.sort_unstable();
        found.dedup();
        needs.push(found);
    }
    Ok(needs)
}

/// A tensor's number among declared names; `x` and `x:0` are the same tensor.
fn find(names: &[String], name: &str) -> Option<usize> {
    let wanted = parse_endpoint(name).ok()?;
    names
        .iter()
        .position(|declared| declared == name || parse_endpoint(declared).is_ok_and(|found| found == wanted))
}
