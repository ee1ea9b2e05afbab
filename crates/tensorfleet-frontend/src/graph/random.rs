//! Random numbers.

use tensorfleet_core::{DType, Result};

use super::graph::Graph;
use super::operand::Operand;
use super::output::Output;

impl Graph {
    /// Normally distributed random numbers (float), other ones in each run.
    pub fn random_normal(&self, shape: impl Operand, mean: f32, stddev: f32) -> Result<Output> {
        self.scaled_normal("random_normal", "RandomStandardNormal", shape, mean, stddev)
    }

    /// Normally distributed random numbers (float), those beyond two standard deviations drawn again.
    pub fn truncated_normal(&self, shape: impl Operand, mean: f32, stddev: f32) -> Result<Output> {
        self.scaled_normal("truncated_normal", "TruncatedNormal", shape, mean, stddev)
    }

    /// Random numbers (float) spread evenly over `low..high`.
    pub fn random_uniform(&self, shape: impl Operand, low: f32, high: f32) -> Result<Output> {
        self.name_scope("random_uniform", || {
            let scope = self.build(|builder| builder.name_scope().to_string());
            let shape = shape.into_arg().into_output(self, "shape", None)?;
            let low = self.constant_named("min", low);
            let high = self.constant_named("max", high);
            let uniform = self.standard("RandomUniform", &shape)?;
            let range = &high - &low;
            let scaled = &uniform * &range;
            scaled.op("AddV2").input(&low).name(&format!("{scope}/")).output()
        })
    }

    fn scaled_normal(
        &self,
        name: &str,
        op: &str,
        shape: impl Operand,
        mean: f32,
        stddev: f32,
    ) -> Result<Output> {
        self.name_scope(name, || {
            let scope = self.build(|builder| builder.name_scope().to_string());
            let shape = shape.into_arg().into_output(self, "shape", None)?;
            let mean = self.constant_named("mean", mean);
            let stddev = self.constant_named("stddev", stddev);
            let scaled = self.standard(op, &shape)? * &stddev;
            scaled.op("AddV2").input(&mean).name(&format!("{scope}/")).output()
        })
    }

    fn standard(&self, op: &str, shape: &Output) -> Result<Output> {
        let (seed, seed2) = self.seeds();
        let node = self.op(op).input(shape).attr("dtype", DType::Float);
        node.attr("seed", seed).attr("seed2", seed2).output()
    }
}
