//! [`LivingModel`]: the model that the parameter servers have when a chief comes back.
//!
//! A chief that was killed, frozen or cut off finds parameter servers on which the others have trained on. Restoring its checkpoint
//! would throw their work away. So it keeps the model that is there, if it is this graph's model (every variable has a value of its
//! shape) and no checkpoint is newer. What is half there, because a parameter server was restarted, is restored as a whole.
//!
//! The servers are asked in a session and with a graph of its own: the program's graph stays as the program made it.

use std::time::Duration;

use tensorfleet_core::{PartialShape, Result, Tensor, notice};
use tensorfleet_proto::tensorflow::GraphDef;

use super::checkpoint_state::Candidates;
use super::global_step::step_number;
use crate::checkpoint::CheckpointReader;
use crate::graph::{Graph, Output};
use crate::session::{Session, SessionOptions};

/// How long the servers may take to answer before their tasks count as stuck.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// The variables of a graph, all of which have values on its servers.
pub(crate) struct LivingModel {
    /// The name of the variable that counts steps, and its value.
    step: Option<(String, i64)>,
    has_the_graphs_shapes: bool,
}

impl LivingModel {
    /// The model that the servers at `master` have; `None` if some variable has no value. A session in this process has variables
    /// of its own, which have none yet.
    pub(crate) fn find(graph: &Graph, master: &str, options: &SessionOptions) -> Result<Option<LivingModel>> {
        if master.is_empty() || options.isolate_session_state {
            return Ok(None);
        }
        let probe = Probe::of(graph)?;
        if probe.variables.is_empty() {
            return Ok(None);
        }
        let options = SessionOptions { client: None, log_device_placement: false, ..options.clone() };
        let session = Session::connect_with(master, &probe.graph, options)?;
        let found = probe.ask(&session);
        // What was asked for is known; the session may be gone.
        let _ = session.close();
        found
    }

    /// Whether the model is to be kept instead of the newest checkpoint. Without a count of steps nobody can tell which is newer.
    pub(crate) fn is_newest(&self, candidates: &Candidates) -> bool {
        let (Some(checkpoint), Some((name, living))) = (candidates.newest(), &self.step) else {
            return false;
        };
        // A checkpoint that cannot be read is the business of whoever restores.
        let saved = CheckpointReader::open(checkpoint).and_then(|reader| reader.tensor(name));
        let Ok(saved) = saved.and_then(|step| step_number(&step)) else { return false };
        if *living < saved || !self.has_the_graphs_shapes {
            return false;
        }
        notice::warn(format!(
            "all variables have values, and their model is at step {living}; the newest checkpoint, {checkpoint}, is of step \
             {saved}. The living model is kept. To go back to the checkpoint, restart the parameter servers or reset them \
             (Session::reset)"
        ));
        true
    }
}

/// A graph that asks about the variables of another.
struct Probe {
    graph: Graph,
    variables: Vec<Asked>,
    /// The variable that counts steps.
    step: Option<(String, Output)>,
}

struct Asked {
    is_initialized: Output,
    shape: Output,
    expected: PartialShape,
}

impl Probe {
    fn of(model: &Graph) -> Result<Probe> {
        let variables = model.global_variables();
        let names: Vec<String> = variables.iter().map(|variable| variable.name()).collect();
        let mut nodes = model.build(|builder| {
            let graph = builder.graph();
            let nodes = names.iter().filter_map(|name| graph.find(name));
            nodes.map(|node| graph.node_def(node)).collect::<Vec<_>>()
        });
        for node in &mut nodes {
            // Whatever they stood beside is not here.
            node.attr.remove("_class");
            node.input.clear();
        }
        let graph = Graph::from_graph_def(GraphDef { node: nodes, ..model_versions(model) })?;
        let mut asked = Vec::with_capacity(variables.len());
        let counter = model.step_counter().map(|step| step.name());
        let mut step = None;
        for variable in &variables {
            let name = variable.name();
            let handle = graph.output(&name)?;
            let (is_resource, dtype) = (variable.is_resource(), variable.dtype()?);
            graph.device(variable.device(), || -> Result<()> {
                let is_initialized = match is_resource {
                    true => graph.op("VarIsInitializedOp").input(&handle).output()?,
                    false => graph.op("IsVariableInitialized").input(&handle).output()?,
                };
                let shape = match is_resource {
                    true => graph.op("VariableShape").input(&handle).output()?,
                    false => graph.op("Shape").input(&handle).output()?,
                };
                if counter.as_deref() == Some(name.as_str()) {
                    let read = match is_resource {
                        true => graph.op("ReadVariableOp").input(&handle).attr("dtype", dtype).output()?,
                        false => graph.op("Identity").input(&handle).output()?,
                    };
                    step = Some((name.clone(), read));
                }
                asked.push(Asked { is_initialized, shape, expected: variable.shape()? });
                Ok(())
            })?;
        }
        Ok(Probe { graph, variables: asked, step })
    }

    fn ask(&self, session: &Session) -> Result<Option<LivingModel>> {
        let questions: Vec<&Output> = self.variables.iter().map(|asked| &asked.is_initialized).collect();
        for answer in session.step().timeout(ANSWER_TIMEOUT).run(questions)? {
            if !answer.to_scalar::<bool>()? {
                return Ok(None);
            }
        }
        let shapes: Vec<&Output> = self.variables.iter().map(|asked| &asked.shape).collect();
        let shapes = session.step().timeout(ANSWER_TIMEOUT).run(shapes)?;
        let mut has_the_graphs_shapes = true;
        for (asked, found) in self.variables.iter().zip(&shapes) {
            has_the_graphs_shapes &= fits(&asked.expected, found)?;
        }
        let step = match &self.step {
            Some((name, read)) => {
                let value = session.step().timeout(ANSWER_TIMEOUT).run(read)?;
                Some((name.clone(), step_number(&value)?))
            }
            None => None,
        };
        Ok(Some(LivingModel { step, has_the_graphs_shapes }))
    }
}

/// Old producers have other defaults of attributes and other placements, so the probe is as old as the model.
fn model_versions(model: &Graph) -> GraphDef {
    let versions = model.build(|builder| builder.graph().versions().cloned());
    GraphDef { versions, ..Default::default() }
}

/// Whether a value has the shape that the graph says: a model of the same names may be another one.
fn fits(expected: &PartialShape, found: &Tensor) -> Result<bool> {
    let Some(dims) = expected.dims() else { return Ok(true) };
    let found: Vec<usize> =
        found.as_slice::<i32>()?.iter().map(|&dim| usize::try_from(dim).unwrap_or(0)).collect();
    Ok(dims.len() == found.len()
        && dims.iter().zip(&found).all(|(dim, len)| dim.is_none_or(|dim| dim == *len)))
}
