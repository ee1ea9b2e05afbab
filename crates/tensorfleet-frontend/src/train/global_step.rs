//! The global step: the variable that counts training steps.

use tensorfleet_core::{DType, Result, Status, Tensor, ensure};

use crate::graph::{Graph, Variable, VariableParts};
use crate::variables::Initializer;

/// The name that checkpoints and other programs know it by.
const NAME: &str = "global_step";

/// The number that a read of the global step gave. Old programs count in floats: `get_variable` makes them if no type is said.
pub(crate) fn step_number(tensor: &Tensor) -> Result<i64> {
    match tensor.dtype() {
        DType::Int32 => tensor.to_scalar::<i32>().map(i64::from),
        DType::Float => tensor.to_scalar::<f32>().map(|step| step as i64),
        DType::Double => tensor.to_scalar::<f64>().map(|step| step as i64),
        _ => tensor.to_scalar::<i64>(),
    }
}

/// The variable of a graph that counts training steps.
#[derive(Default)]
struct GlobalStep(Option<VariableParts>);

impl Graph {
    /// Makes the global step: an int64 variable `global_step` that is not trained. An error if there is one.
    pub fn create_global_step(&self) -> Result<Variable> {
        ensure!(
            self.get_global_step()?.is_none(),
            AlreadyExists,
            "\"{NAME}\" already exists; use get_or_create_global_step to share it"
        );
        self.name_scope("", || {
            let step = self.get_variable(NAME).shape(()).dtype(DType::Int64);
            let step = step.initializer(Initializer::zeros()).untrainable().build()?;
            self.set_global_step(&step)?;
            Ok(step)
        })
    }

    /// The global step, if there is one: the variable that was made or set as such, else the one called `global_step`. An
    /// error if that is no integer scalar.
    ///
    /// ```
    /// # use tensorfleet::{DType, Graph};
    /// let g = Graph::new();
    /// assert!(g.get_global_step()?.is_none());
    /// g.new_variable("global_step").dtype(DType::Int64).untrainable().init(0);
    /// assert_eq!(g.get_global_step()?.unwrap().name(), "global_step");
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn get_global_step(&self) -> Result<Option<Variable>> {
        self.step_counter().map(|variable| check(&variable).map(|()| variable)).transpose()
    }

    /// The same, of whatever type: programs that name their step to a supervisor may count in floats.
    pub(crate) fn step_counter(&self) -> Option<Variable> {
        let told = self.registry(|GlobalStep(parts)| parts.clone());
        let told = told.map(|parts| Variable::new(self, Ok(parts)));
        told.or_else(|| self.global_variables().into_iter().find(|variable| variable.name() == NAME))
    }

    /// The global step; it is made if there is none.
    ///
    /// ```
    /// # use tensorfleet::Graph;
    /// let g = Graph::new();
    /// let step = g.get_or_create_global_step()?;
    /// assert_eq!(g.get_or_create_global_step()?.name(), step.name());
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn get_or_create_global_step(&self) -> Result<Variable> {
        match self.get_global_step()? {
            Some(step) => Ok(step),
            None => self.create_global_step(),
        }
    }

    /// Makes an integer scalar variable the global step of the graph.
    pub fn set_global_step(&self, step: &Variable) -> Result<()> {
        step.handle().endpoint_in(self)?;
        check(step)?;
        let parts = step.parts()?;
        self.registry(|GlobalStep(step)| *step = Some(parts));
        Ok(())
    }
}

fn check(step: &Variable) -> Result<()> {
    let (dtype, shape) = (step.dtype()?, step.shape()?);
    let is_integer = matches!(dtype, DType::Int32 | DType::Int64);
    match is_integer && shape.rank().is_none_or(|rank| rank == 0) {
        true => Ok(()),
        false => Err(Status::invalid_argument(format!(
            "Existing \"{NAME}\" must be an integer scalar, but '{}' is {dtype} of shape {shape}",
            step.name()
        ))),
    }
}
