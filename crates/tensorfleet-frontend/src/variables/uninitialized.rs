//! Which variables have a value yet.

use tensorfleet_core::Result;

use crate::graph::{Graph, Operation, Output, Variable};

/// What the reports compute on, so that they do not depend on where the variables are.
const REPORT_DEVICE: &str = "/cpu:0";

impl Graph {
    /// An operation, named `init`, that initialises these variables.
    pub fn variables_initializer(&self, variables: &[Variable]) -> Result<Operation> {
        self.group_named("init", variables.iter().map(Variable::initializer))
    }

    /// The names of the global and local variables that have no value, as a string vector.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let (a, b) = (g.variable("a", 1.0f32), g.variable("b", 2.0f32));
    /// let missing = g.report_uninitialized_variables()?;
    /// let session = Session::new(&g);
    /// session.run(a.initializer())?;
    /// assert_eq!(session.run(&missing)?.as_strings()?, ["b"]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn report_uninitialized_variables(&self) -> Result<Output> {
        let mut variables = self.global_variables();
        variables.extend(self.local_variables());
        self.report_uninitialized_variables_of(&variables)
    }

    /// The names of those of `variables` that have no value, as a string vector.
    pub fn report_uninitialized_variables_of(&self, variables: &[Variable]) -> Result<Output> {
        self.name_scope("report_uninitialized_variables", || {
            let report = |body: &dyn Fn() -> Result<Output>| self.device(REPORT_DEVICE, body);
            if variables.is_empty() {
                return report(&|| {
                    let none = tensorfleet_core::Tensor::from_strings(Vec::new(), &[0])?;
                    self.constant(none).check()
                });
            }
            let mut initialized = Vec::with_capacity(variables.len());
            for variable in variables {
                initialized.push(variable.is_initialized()?);
            }
            let names: Vec<String> = variables.iter().map(Variable::name).collect();
            report(&|| {
                let missing = self.stack(&initialized)?.logical_not()?;
                self.constant(names.clone()).boolean_mask(&missing)
            })
        })
    }

    /// A value that can be computed only if all global and local variables have values: the rank of each.
    pub fn assert_variables_initialized(&self) -> Result<Option<Output>> {
        let mut variables = self.global_variables();
        variables.extend(self.local_variables());
        if variables.is_empty() {
            return Ok(None);
        }
        let mut ranks = Vec::with_capacity(variables.len());
        for variable in &variables {
            ranks.push(self.colocate_with(variable, || self.op("Rank").input(variable).output())?);
        }
        self.stack(ranks).map(Some)
    }
}
