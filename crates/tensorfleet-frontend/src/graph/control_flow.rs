//! Conditions and loops inside the graph.

use tensorfleet_core::{PartialShape, Result, Status, ensure};
use tensorfleet_kernel::builder::LoopOptions;

use super::graph::Graph;
use super::operand::Operand;
use super::output::Output;

/// What a branch of [`Graph::cond`] gives or a [`Graph::while_loop`] carries: one output, an array of them, or a `Vec`.
pub trait OutputGroup: Sized {
    /// All outputs.
    fn into_outputs(self) -> Vec<Output>;
    /// As many outputs as [`OutputGroup::into_outputs`] gave.
    fn from_outputs(outputs: Vec<Output>) -> Result<Self>;
}

impl OutputGroup for Output {
    fn into_outputs(self) -> Vec<Output> {
        vec![self]
    }

    fn from_outputs(outputs: Vec<Output>) -> Result<Output> {
        let [output] = <[Output; 1]>::from_outputs(outputs)?;
        Ok(output)
    }
}

impl<const N: usize> OutputGroup for [Output; N] {
    fn into_outputs(self) -> Vec<Output> {
        self.into()
    }

    fn from_outputs(outputs: Vec<Output>) -> Result<[Output; N]> {
        <[Output; N]>::try_from(outputs)
            .map_err(|outputs| Status::internal(format!("expected {N} outputs, got {}", outputs.len())))
    }
}

impl OutputGroup for Vec<Output> {
    fn into_outputs(self) -> Vec<Output> {
        self
    }

    fn from_outputs(outputs: Vec<Output>) -> Result<Vec<Output>> {
        Ok(outputs)
    }
}

/// A loop about to be built; see [`Graph::new_loop`].
#[must_use = "nothing is added to the graph before `build`"]
pub struct LoopBuilder {
    graph: Graph,
    name: String,
    options: LoopOptions,
}

impl Graph {
    /// The outputs of `then` if `predicate` is true, else those of `otherwise`. Only the branch that is taken runs.
    ///
    /// ```
    /// # use tensorfleet::{DType, Graph, Session};
    /// let g = Graph::new();
    /// let x = g.placeholder(DType::Float, ());
    /// let magnitude = g.cond(x.less(0.0)?, || Ok(-&x), || Ok(x.clone()))?;
    /// let session = Session::new(&g);
    /// assert_eq!(session.feed(&x, -3.0).run(&magnitude)?.to_scalar::<f32>()?, 3.0);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn cond<V: OutputGroup>(
        &self,
        predicate: impl Operand,
        then: impl FnOnce() -> Result<V>,
        otherwise: impl FnOnce() -> Result<V>,
    ) -> Result<V> {
        self.name_scope("cond", || {
            let predicate = predicate.into_arg().into_output(self, "pred", None)?;
            let predicate = predicate.endpoint_in(self)?;
            let cond = self.build(|builder| builder.begin_cond(predicate))?;
            let then = self.scoped(|builder| builder.enter_flow(cond.then), then)?.into_outputs();
            let otherwise =
                self.scoped(|builder| builder.enter_flow(cond.otherwise), otherwise)?.into_outputs();
            ensure!(
                then.len() == otherwise.len(),
                InvalidArgument,
                "the branches of a condition gave {} and {} outputs",
                then.len(),
                otherwise.len()
            );
            let mut joined = Vec::with_capacity(then.len());
            for (then, otherwise) in then.iter().zip(&otherwise) {
                let (then, otherwise) = (then.endpoint_in(self)?, otherwise.endpoint_in(self)?);
                let merged = self.build(|builder| builder.join(cond, then, otherwise))?;
                joined.push(self.output_at(merged).check()?);
            }
            V::from_outputs(joined)
        })
    }

    /// Repeats `body` on the loop variables while `condition` holds, and gives their last values.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let start = [g.constant(0), g.constant(1.0f32)];
    /// let [_, power] = g.while_loop(start, |[i, _]| i.less(10), |[i, x]| Ok([i + 1, x * 2.0]))?;
    /// assert_eq!(Session::new(&g).run(&power)?.to_scalar::<f32>()?, 1024.0);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn while_loop<V: OutputGroup>(
        &self,
        variables: V,
        condition: impl FnOnce(V) -> Result<Output>,
        body: impl FnOnce(V) -> Result<V>,
    ) -> Result<V> {
        self.new_loop().build(variables, condition, body)
    }

    /// A loop of which more is to be said.
    ///
    /// ```
    /// # use tensorfleet::{Graph, PartialShape, Session};
    /// let g = Graph::new();
    /// let start = [g.constant(0), g.constant([1.0f32])];
    /// // The vector grows, so the loop is told that its length is not known.
    /// let shapes = vec![PartialShape::scalar(), PartialShape::from_signed(&[-1])?];
    /// let grow = g.new_loop().name("grow").shape_invariants(shapes);
    /// let [_, grown] = grow.build(start, |[i, _]| i.less(3), |[i, x]| Ok([i + 1, g.concat([&x, &x], 0)?]))?;
    /// assert_eq!(Session::new(&g).run(&grown)?.num_elements(), 8);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn new_loop(&self) -> LoopBuilder {
        LoopBuilder { graph: self.clone(), name: "while".to_string(), options: LoopOptions::default() }
    }
}

impl LoopBuilder {
    /// Names the loop.
    pub fn name(mut self, name: &str) -> LoopBuilder {
        self.name = name.to_string();
        self
    }

    /// How many iterations may overlap; 10 if nothing is said.
    pub fn parallel_iterations(mut self, count: i64) -> LoopBuilder {
        self.options.parallel_iterations = count;
        self
    }

    /// What stays true of the shapes of the loop variables, where they change.
    pub fn shape_invariants(mut self, shapes: Vec<PartialShape>) -> LoopBuilder {
        self.options.shape_invariants = shapes;
        self
    }

    /// Builds the loop; see [`Graph::while_loop`].
    pub fn build<V: OutputGroup>(
        self,
        variables: V,
        condition: impl FnOnce(V) -> Result<Output>,
        body: impl FnOnce(V) -> Result<V>,
    ) -> Result<V> {
        let graph = &self.graph;
        let outputs = |endpoints: Vec<_>| -> Result<V> {
            V::from_outputs(endpoints.into_iter().map(|endpoint| graph.output_at(endpoint)).collect())
        };
        let endpoints = |group: V| -> Result<Vec<_>> {
            group.into_outputs().iter().map(|output| output.endpoint_in(graph)).collect()
        };
        graph.name_scope(&self.name, || {
            let first = endpoints(variables)?;
            let mut the_loop = graph.build(|builder| builder.begin_loop(&first, &self.options))?;
            let flow = the_loop.flow();
            let built = graph.scoped(
                |builder| builder.enter_flow(flow),
                || -> Result<Vec<_>> {
                    let goes_on = condition(outputs(the_loop.variables().to_vec())?)?.endpoint_in(graph)?;
                    let inside = graph.build(|builder| builder.loop_condition(&mut the_loop, goes_on))?;
                    endpoints(body(outputs(inside)?)?)
                },
            );
            let ended = built.and_then(|next| graph.build(|builder| builder.end_loop(&the_loop, &next)));
            if ended.is_err() {
                graph.build(|builder| builder.abandon_loop(&the_loop));
            }
            outputs(ended?)
        })
    }
}
