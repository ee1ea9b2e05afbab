//! In-graph replication: one copy of the model per device, all with the same variables, in one graph.
//!
//! Each tower computes on its part of the batch. Their gradients are averaged for each variable, so that a step with
//! towers equals a step with the whole batch, as long as the parts are equal in size and the loss is a mean.

use tensorfleet_core::{Result, Status, ensure};

use super::GradientsAndVariables;
use crate::graph::{Gradient, Graph, IndexedSlices, Variable};
use crate::variables::Reuse;

/// Builds one tower per device. The closure gets the number of the tower; variables that it asks for by
/// [`Graph::get_variable`] are made by the first tower and found by the others. Ops stand in the name scopes `tower_0`,
/// `tower_1`, ….
///
/// ```
/// # use tensorfleet::{Graph, Initializer, Result, Session};
/// use tensorfleet::train::{GradientDescent, MinimizeOptions, Optimizer, average_gradients, towers};
/// let g = Graph::new();
/// let optimizer = GradientDescent::new(0.5);
/// let targets = [g.constant(1.0f32), g.constant(3.0f32)];
/// let gradients = towers(&g, &["/cpu:0", "/cpu:0"], |tower| {
///     let w = g.get_variable("w").shape(()).initializer(Initializer::zeros()).build()?;
///     let loss = (w.value() - &targets[tower]).square()?;
///     optimizer.compute_gradients(&loss, &MinimizeOptions::default())
/// })?;
/// let train = optimizer.apply_gradients(&average_gradients(&gradients)?, None)?;
///
/// let session = Session::new(&g);
/// session.run(g.global_variables_initializer()?)?;
/// session.run(&train)?;
/// assert_eq!(session.run(&g.global_variables()[0])?.to_scalar::<f32>()?, 2.0);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub fn towers<T>(graph: &Graph, devices: &[&str], build: impl Fn(usize) -> Result<T>) -> Result<Vec<T>> {
    let outer = graph.current_variable_scope();
    let mut built = Vec::with_capacity(devices.len());
    for (tower, &device) in devices.iter().enumerate() {
        let reuse = if tower == 0 { outer.reuse() } else { Reuse::Yes };
        let result = graph.device(device, || {
            graph.name_scope(&format!("tower_{tower}"), || {
                graph.again_in(&outer).reuse(reuse).without_name_scope().enter(|| build(tower))
            })
        });
        built.push(result.map_err(|status| status.context(format!("tower {tower} on {device}")))?);
    }
    Ok(built)
}

/// The mean of the towers' gradients of each variable. Every tower must have the same variables in the same order. The
/// mean of rows is those rows divided by the number of towers; a variable that some towers do not use counts as zero
/// there. There is an example at [`towers`].
pub fn average_gradients(towers: &[GradientsAndVariables]) -> Result<GradientsAndVariables> {
    let Some(first) = towers.first() else {
        return Err(Status::invalid_argument("There are no towers to average the gradients of."));
    };
    let mut averaged = Vec::with_capacity(first.len());
    for (index, (_, variable)) in first.iter().enumerate() {
        let mut gradients = Vec::with_capacity(towers.len());
        for (number, tower) in towers.iter().enumerate() {
            let found = tower.get(index).filter(|(_, found)| found.name() == variable.name());
            let (gradient, _) = found.ok_or_else(|| {
                Status::invalid_argument(format!(
                    "Tower {number} has no gradient number {index} of variable '{}'; all towers must have the same \
                     variables in the same order",
                    variable.name()
                ))
            })?;
            gradients.extend(gradient.clone());
        }
        let mean = match gradients.is_empty() {
            true => None,
            false => Some(mean(variable, &gradients, towers.len())?),
        };
        averaged.push((mean, variable.clone()));
    }
    ensure!(
        towers.iter().all(|tower| tower.len() == first.len()),
        InvalidArgument,
        "The towers have different numbers of gradients"
    );
    Ok(averaged)
}

/// The sum of `gradients` divided by `count`, built where the variable is.
fn mean(variable: &Variable, gradients: &[Gradient], count: usize) -> Result<Gradient> {
    let graph = variable.graph();
    let dtype = variable.dtype()?;
    graph.name_scope("average_gradients", || {
        graph.colocate_with(variable, || {
            let divisor = graph.literal("count", count as f64, dtype)?;
            let slices: Option<Vec<&IndexedSlices>> = gradients
                .iter()
                .map(|gradient| match gradient {
                    Gradient::Slices(slices) => Some(slices),
                    Gradient::Dense(_) => None,
                })
                .collect();
            if let Some([first, ..]) = slices.as_deref() {
                let all = slices.as_deref().unwrap_or_default();
                let values: Vec<_> = all.iter().map(|slices| slices.values.clone()).collect();
                let indices: Vec<_> = all.iter().map(|slices| slices.indices.clone()).collect();
                let values = (graph.concat(values, 0)? / divisor).check()?;
                let indices = graph.concat(indices, 0)?;
                return Ok(Gradient::Slices(IndexedSlices {
                    values,
                    indices,
                    dense_shape: first.dense_shape.clone(),
                }));
            }
            let dense: Vec<_> = gradients.iter().map(Gradient::dense).collect::<Result<_>>()?;
            let sum = graph.add_n(dense)?;
            Ok(Gradient::Dense((sum / divisor).check()?))
        })
    })
}
