//! Which variables have no value yet: what readiness is made of.

use tensorfleet_core::{Result, Tensor};

use crate::graph::Graph;
use crate::output::Output;
use crate::variable::Variable;

impl Graph {
    /// The names of the variables, global and local, that have no value, as a vector of strings.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let (v, w) = (g.variable("v", 1.0f32), g.variable("w", 2.0f32));
    /// let missing = g.report_uninitialized_variables()?;
    /// let session = Session::new(&g);
    /// session.run(v.initializer())?;
    /// assert_eq!(session.run(&missing)?.as_strings()?, ["w"]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn report_uninitialized_variables(&self) -> Result<Output> {
        let mut variables = self.global_variables();
        variables.extend(self.local_variables());
        self.report_uninitialized_variables_of(&variables)
    }

    /// The names of those among these variables that have no value.
    pub fn report_uninitialized_variables_of(&self, variables: &[Variable]) -> Result<Output> {
        self.name_scope("report_uninitialized_variables", || {
            if variables.is_empty() {
                let none = Tensor::from_strings(Vec::new(), &[0])?;
                return self.device("/device:CPU:0", || self.constant(none)).check();
            }
            // Each asks where its variable is; only the answers come here.
            let set = variables.iter().map(Variable::is_initialized).collect::<Result<Vec<Output>>>()?;
            let names: Vec<String> = variables.iter().map(Variable::name).collect();
            self.device("/device:CPU:0", || {
                let unset = self.stack(set)?.logical_not()?;
                let names = self.constant(names).check()?;
                self.name_scope("boolean_mask", || names.gather(unset.where_true()?.squeeze(&[1])?))
            })
        })
    }
}
