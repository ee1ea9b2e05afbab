//! [`LivingModel`]: the model that the parameter servers have when a chief comes back.
//!
//! A chief that was killed, frozen or cut off finds parameter servers on which the others have trained on. Restoring its checkpoint
//! would throw their work away. So it keeps the model that is there, if it is this graph's model (every variable has a value of its
//! shape) and no checkpoint is newer. What is half there, because a parameter server was restarted, is restored as a whole.

use tensorfleet_core::{Result, notice};

use super::checkpoint_state::Candidates;
use crate::checkpoint::CheckpointReader;
use crate::graph::{Graph, Output, Variable};
use crate::session::Session;

/// The variables of a graph, as its servers have them.
pub(crate) struct LivingModel {
    graph: Graph,
    global_step: Variable,
}

impl LivingModel {
    /// The model of a graph that counts its steps; without a count nobody can tell which of two models is newer.
    pub(crate) fn of(graph: &Graph) -> Result<Option<LivingModel>> {
        let global_step = graph.get_global_step()?;
        Ok(global_step.map(|global_step| LivingModel { graph: graph.clone(), global_step }))
    }

    /// Whether the model, all of whose variables have values, is to be kept instead of the newest checkpoint.
    pub(crate) fn is_newest(&self, session: &Session, candidates: &Candidates) -> Result<bool> {
        let Some(checkpoint) = candidates.newest() else { return Ok(false) };
        // A checkpoint that cannot be read is the business of whoever restores.
        let saved =
            CheckpointReader::open(checkpoint).and_then(|reader| reader.tensor(&self.global_step.name()));
        let Ok(saved) = saved.and_then(|step| step_number(&step)) else { return Ok(false) };
        let living = step_number(&session.run(&self.global_step)?)?;
        if living < saved || !self.has_the_graphs_shapes(session)? {
            return Ok(false);
        }
        notice::warn(format!(
            "all variables have values, and their model is at step {living}; the newest checkpoint, {checkpoint}, is of step \
             {saved}. The living model is kept. To go back to the checkpoint, restart the parameter servers or reset them \
             (Session::reset)"
        ));
        Ok(true)
    }

    /// Whether the values have the shapes that the graph says: a model of the same names may be another one.
    fn has_the_graphs_shapes(&self, session: &Session) -> Result<bool> {
        let mut known = Vec::new();
        let mut shapes: Vec<Output> = Vec::new();
        for variable in self.graph.global_variables() {
            let expected = variable.shape()?;
            if expected.dims().is_some() {
                shapes.push(self.graph.device(variable.device(), || variable.value().shape_tensor())?);
                known.push(expected);
            }
        }
        let found = session.run(shapes.iter().collect::<Vec<_>>())?;
        for (expected, found) in known.iter().zip(&found) {
            let found: Vec<usize> =
                found.as_slice::<i32>()?.iter().map(|&dim| usize::try_from(dim).unwrap_or(0)).collect();
            let fits = expected.dims().is_some_and(|dims| {
                dims.len() == found.len()
                    && dims.iter().zip(&found).all(|(dim, len)| dim.is_none_or(|dim| dim == *len))
            });
            if !fits {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn step_number(step: &tensorfleet_core::Tensor) -> Result<i64> {
    step.to_scalar::<i64>().or_else(|_| step.to_scalar::<i32>().map(i64::from))
}
