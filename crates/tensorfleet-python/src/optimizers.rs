//! The update rules of the library's optimizers.
//!
//! A rule is made when a train op is built, with its numbers as outputs of the graph; slots are variables that the package made.
//! What happens around a rule (names, scopes, the step counter) is the package's, because classes of programs take part in it.

use std::collections::BTreeMap;

use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat};
use tensorfleet::train::{
    Adadelta, Adagrad, AdagradDa, Adam, Ftrl, GradientDescent, Hyperparameter, Momentum, ProximalAdagrad,
    ProximalGradientDescent, RmsProp, UpdateRule,
};
use tensorfleet::{Graph, IndexedSlices, Operation, Output, Result, Variable};

use crate::graph::{PyGraph, endpoint, number};
use crate::variable::PyVariable;

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyUpdateRule>()
}

/// A rule with what its updates share.
struct Prepared<R: UpdateRule> {
    rule: R,
    shared: R::Prepared,
}

/// A [`Prepared`] rule of any kind.
trait Rule: Send + Sync {
    fn put(&self, variable: &Variable, slots: &[(String, Variable)], common: &[(String, Variable)]);
    fn apply_dense(&self, variable: &Variable, gradient: &Output) -> Result<Operation>;
    fn apply_sparse(&self, variable: &Variable, gradient: &IndexedSlices) -> Result<Operation>;
    fn finish(&self, common: &[(String, Variable)], updates: Vec<Operation>) -> Result<Vec<Operation>>;
}

impl<R: UpdateRule> Rule for Prepared<R>
where
    R::Prepared: Send + Sync,
{
    fn put(&self, variable: &Variable, slots: &[(String, Variable)], common: &[(String, Variable)]) {
        for (name, slot) in slots {
            self.rule.state().slots().put(variable, name, slot);
        }
        for (name, slot) in common {
            self.rule.state().slots().put_shared(name, slot);
        }
    }

    fn apply_dense(&self, variable: &Variable, gradient: &Output) -> Result<Operation> {
        self.rule.apply_dense(&self.shared, variable, gradient)
    }

    fn apply_sparse(&self, variable: &Variable, gradient: &IndexedSlices) -> Result<Operation> {
        self.rule.apply_sparse(&self.shared, variable, gradient)
    }

    fn finish(&self, common: &[(String, Variable)], updates: Vec<Operation>) -> Result<Vec<Operation>> {
        for (name, slot) in common {
            self.rule.state().slots().put_shared(name, slot);
        }
        self.rule.finish(&self.shared, updates)
    }
}

fn prepared<R: UpdateRule + 'static>(graph: &Graph, rule: R) -> Result<Box<dyn Rule>>
where
    R::Prepared: Send + Sync,
{
    let shared = rule.prepare(graph)?;
    Ok(Box::new(Prepared { rule, shared }))
}

/// The options of a rule, as Python gives them: outputs, numbers, flags, variables.
struct Options<'a, 'py> {
    graph: &'a PyGraph,
    given: &'a Bound<'py, PyDict>,
}

impl<'py> Options<'_, 'py> {
    fn find(&self, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.given.get_item(name)?.ok_or_else(|| PyKeyError::new_err(name.to_string()))
    }

    /// An output, or a number.
    fn value(&self, name: &str) -> PyResult<Hyperparameter> {
        let value = self.find(name)?;
        if value.is_instance_of::<PyFloat>() {
            return Ok(Hyperparameter::Number(value.extract()?));
        }
        Ok(Hyperparameter::Computed(self.graph.output(value.extract()?)))
    }

    fn number(&self, name: &str) -> PyResult<f64> {
        self.find(name)?.extract()
    }

    fn flag(&self, name: &str) -> PyResult<bool> {
        match self.given.get_item(name)? {
            Some(value) => Ok(value.cast::<PyBool>()?.is_true()),
            None => Ok(false),
        }
    }

    fn variable(&self, name: &str) -> PyResult<Variable> {
        Ok(self.find(name)?.cast::<PyVariable>()?.get().0.clone())
    }
}

/// A rule about to be prepared.
type Unprepared = Box<dyn FnOnce(&Graph) -> Result<Box<dyn Rule>>>;

/// The rule called `kind`.
fn rule(kind: &str, options: &Options<'_, '_>) -> PyResult<Unprepared> {
    let rate = options.value("learning_rate")?;
    let locking = options.flag("use_locking")?;
    /// Makes the rule one that is prepared later.
    macro_rules! later {
        ($rule:expr) => {{
            let rule = $rule.use_locking(locking);
            Box::new(move |graph: &Graph| prepared(graph, rule)) as Unprepared
        }};
    }
    Ok(match kind {
        "GradientDescent" => later!(GradientDescent::new(rate)),
        "Adagrad" => later!(Adagrad::new(rate)),
        "Adadelta" => {
            later!(Adadelta::new(rate).rho(options.value("rho")?).epsilon(options.value("epsilon")?))
        }
        "Momentum" => {
            let rule = Momentum::new(rate, options.value("momentum")?);
            later!(rule.use_nesterov(options.flag("use_nesterov")?))
        }
        "RMSProp" => {
            let rule = RmsProp::new(rate).decay(options.value("decay")?).momentum(options.value("momentum")?);
            later!(rule.epsilon(options.value("epsilon")?).centered(options.flag("centered")?))
        }
        "Adam" => {
            let rule = Adam::new(rate).beta1(options.value("beta1")?).beta2(options.value("beta2")?);
            later!(rule.epsilon(options.value("epsilon")?))
        }
        "Ftrl" => {
            let rule =
                Ftrl::new(rate).without_beta().learning_rate_power(options.value("learning_rate_power")?);
            let rule = rule.l1(options.value("l1")?).l2(options.value("l2")?);
            later!(rule.l2_shrinkage(options.value("l2_shrinkage")?))
        }
        "AdagradDA" => {
            let rule = AdagradDa::new(rate, &options.variable("global_step")?);
            later!(rule.l1(options.number("l1")?).l2(options.number("l2")?))
        }
        "ProximalAdagrad" => {
            later!(ProximalAdagrad::new(rate).l1(options.value("l1")?).l2(options.value("l2")?))
        }
        "ProximalGradientDescent" => {
            later!(ProximalGradientDescent::new(rate).l1(options.value("l1")?).l2(options.value("l2")?))
        }
        other => return Err(PyValueError::new_err(format!("the library has no optimizer '{other}'"))),
    })
}

/// Variables by name.
type Named = BTreeMap<String, Py<PyVariable>>;

fn variables(named: Named) -> Vec<(String, Variable)> {
    named.into_iter().map(|(name, variable)| (name, variable.get().0.clone())).collect()
}

/// The rule of one train op.
#[pyclass(frozen, name = "UpdateRule", module = "tensorfleet._native")]
struct PyUpdateRule(Box<dyn Rule>);

#[pymethods]
impl PyUpdateRule {
    /// The rule of the optimizer `kind`, with its options: outputs by number, floats, flags, variables.
    #[new]
    fn new(
        py: Python<'_>,
        graph: &PyGraph,
        kind: &str,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<PyUpdateRule> {
        let unprepared = rule(kind, &Options { graph, given: options })?;
        graph.locked(py, unprepared).map(PyUpdateRule)
    }

    /// Changes `variable` by a gradient: one output, or the values and indices of rows that occur once. `slots` are those of the
    /// variable, `common` those of all. Gives the node.
    fn apply(
        &self,
        py: Python<'_>,
        graph: &PyGraph,
        variable: &PyVariable,
        slots: Named,
        common: Named,
        gradient: Vec<u64>,
    ) -> PyResult<usize> {
        let (slots, common) = (variables(slots), variables(common));
        let made = graph.locked(py, |graph| {
            self.0.put(&variable.0, &slots, &common);
            let at =
                |index: usize| graph.output_at(endpoint(gradient.get(index).copied().unwrap_or_default()));
            match gradient.len() {
                1 => self.0.apply_dense(&variable.0, &at(0)),
                // No rule looks at the shape of the whole.
                _ => {
                    let slices = IndexedSlices { values: at(0), indices: at(1), dense_shape: at(1) };
                    self.0.apply_sparse(&variable.0, &slices)
                }
            }?
            .node()
        })?;
        Ok(made.index())
    }

    /// Builds what follows the updates; gives all nodes that the train op waits for.
    fn finish(
        &self,
        py: Python<'_>,
        graph: &PyGraph,
        common: Named,
        updates: Vec<u64>,
    ) -> PyResult<Vec<usize>> {
        let common = variables(common);
        let updates = updates.into_iter().map(|node| graph.node_index(node)).collect::<PyResult<Vec<_>>>()?;
        graph.locked(py, |graph| {
            let updates = updates.into_iter().map(|node| graph.operation_at(node)).collect();
            let done = self.0.finish(&common, updates)?;
            done.into_iter().map(|operation| Ok(operation.node()?.index())).collect()
        })
    }
}

#[pymethods]
impl PyGraph {
    /// The values and indices of slices with each row at most once.
    fn sum_duplicates(&self, py: Python<'_>, values: u64, indices: u64) -> PyResult<(u64, u64)> {
        self.locked(py, |graph| {
            let at = |output: u64| graph.output_at(endpoint(output));
            let slices = IndexedSlices { values: at(values), indices: at(indices), dense_shape: at(indices) };
            let slices = slices.sum_duplicates()?;
            Ok((number(slices.values.endpoint()?), number(slices.indices.endpoint()?)))
        })
    }
}
