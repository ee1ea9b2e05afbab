//! The models of the five seed programs, written with the Rust front end.
//!
//! Each is built as the packed case of its name describes it: the same initial values, the same optimizer, reference or
//! resource variables. Nodes get the names TensorFlow gives them, so the case's own steps run on the graph that comes out.

use tensorfleet::train::{Adagrad, Adam, GradientDescent, MinimizeOptions, Optimizer};
use tensorfleet::{DType, Graph, Operand, Output, PartialShape, Result, Status, Tensor, Variable};
use tensorfleet_core::attr::FromAttr;

use crate::case::Case;

/// The Rust twin of a case of the family `models_seed`.
pub fn graph_of(case: &Case) -> Result<Graph> {
    let name = case.name.rsplit('/').next().unwrap_or(&case.name);
    let parts: Vec<&str> = name.split('_').collect();
    let model = Model { graph: Graph::new(), case, is_resource: name.ends_with("_resource") };
    match parts[..] {
        ["seed000", optimizer, _] => model.line(&*optimizer_of(optimizer, 0.01)?)?,
        ["seed001", optimizer, _] => model.power(&*optimizer_of(optimizer, 0.8)?)?,
        ["seed002", optimizer, _] => model.two_layers(&*optimizer_of(optimizer, 0.05)?)?,
        ["seed003", optimizer, _] => model.sums(&*optimizer_of(optimizer, 0.001)?)?,
        ["seed004", "full", ..] => model.full_mnist(&*optimizer_of("adam", 0.01)?)?,
        ["seed004", optimizer, _] => model.mnist(&*optimizer_of(optimizer, 0.01)?)?,
        _ => return Err(Status::not_found(format!("there is no Rust model for {name}"))),
    }
    Ok(model.graph)
}

fn optimizer_of(name: &str, learning_rate: f64) -> Result<Box<dyn Optimizer>> {
    Ok(match name {
        "sgd" => Box::new(GradientDescent::new(learning_rate)),
        "adagrad" => Box::new(Adagrad::new(learning_rate)),
        "adam" => Box::new(Adam::new(learning_rate)),
        _ => return Err(Status::not_found(format!("the cases have no optimizer {name}"))),
    })
}

struct Model<'a> {
    graph: Graph,
    case: &'a Case,
    is_resource: bool,
}

impl Model<'_> {
    fn variable(&self, name: &str, initial: impl Operand) -> Variable {
        let variable = self.graph.new_variable(name);
        let variable = if self.is_resource { variable.resource() } else { variable };
        variable.init(initial)
    }

    /// A variable that starts with the constant the case has for it.
    fn variable_of_case(&self, name: &str) -> Result<Variable> {
        let constants = [format!("{name}/initial_value"), format!("{name}/Initializer/initial_value")];
        let node = self.case.graph.node.iter().find(|node| constants.contains(&node.name));
        let value = node.and_then(|node| node.attr.get("value"));
        let value =
            value.ok_or_else(|| Status::not_found(format!("the case has no initial value of {name}")))?;
        Ok(self.variable(name, Tensor::from_attr(value)?))
    }

    fn global_step(&self) -> Variable {
        let step = self.graph.new_variable("global_step").untrainable();
        let step = if self.is_resource { step.resource() } else { step };
        step.init(0)
    }

    /// What the cases ask for besides: the initialiser, and a value of each variable.
    fn finish(&self) -> Result<()> {
        for variable in self.graph.global_variables() {
            variable.value().check()?;
        }
        self.graph.global_variables_initializer()?;
        Ok(())
    }

    /// Seed 000: a line, fitted by its mean squared error.
    fn line(&self, optimizer: &dyn Optimizer) -> Result<()> {
        let g = &self.graph;
        let (x, y) = (any(g, "Placeholder"), any(g, "Placeholder"));
        let weight = self.variable("weight", g.constant([0.3f32]));
        let bias = self.variable("bias", g.zeros(DType::Float, [1])?);
        let global_step =
            if self.is_resource { self.resource_global_step() } else { g.get_or_create_global_step()? };
        let line = x.mul(&weight)? + &bias;
        let cost = (y - line).square()?.reduce_mean(..)?;
        minimize(optimizer, &cost, &global_step)?;
        self.finish()
    }

    fn resource_global_step(&self) -> Variable {
        let step = self.graph.new_variable("global_step").dtype(DType::Int64).untrainable().resource();
        step.init(0)
    }

    /// Seed 001: a line, fitted point by point.
    fn power(&self, optimizer: &dyn Optimizer) -> Result<()> {
        let g = &self.graph;
        let (x, y) = (any(g, "X"), any(g, "Y"));
        let (w, b) = (self.variable("b0", -1.0f32), self.variable("b1", -2.0f32));
        let loss = (y - (x.mul(&w)? + &b)).pow(2.0)?;
        let global_step = self.variable("Variable", 0);
        minimize(optimizer, &loss, &global_step)?;
        self.finish()
    }

    /// Seed 002: two layers.
    fn two_layers(&self, optimizer: &dyn Optimizer) -> Result<()> {
        let g = &self.graph;
        let x = g.placeholder_named("input", DType::Float, [-1, 4]);
        let y = g.placeholder_named("labels", DType::Float, [-1, 3]);
        let (w1, b1) = (self.variable_of_case("weights_1")?, self.variable_of_case("biases_1")?);
        let (w2, b2) = (self.variable_of_case("weights_2")?, self.variable_of_case("biases_2")?);
        let hidden = (x.matmul(&w1)? + &b1).relu()?;
        let logits = (hidden.matmul(&w2)? + &b2).relu()?;
        let loss = (logits - y).square()?.reduce_mean(..)?;
        let global_step =
            if self.is_resource { self.resource_global_step() } else { g.get_or_create_global_step()? };
        minimize(optimizer, &loss, &global_step)?;
        self.finish()
    }

    /// Seed 003: three scalars.
    fn sums(&self, optimizer: &dyn Optimizer) -> Result<()> {
        let g = &self.graph;
        let [v1, v2, v3] = [1, 2, 3].map(|i| self.variable(&format!("v{i}"), i as f32));
        let s = &v1 + &v2;
        let (p1, p2) = (2.0 * &s, 3.0 * &s);
        let loss = (p1 - 10.0).square()? + (p2 * &v3 - 20.0).square()?;
        optimizer.minimize(&loss)?;
        g.global_variables_initializer()?;
        self.finish()
    }

    /// Seed 004: one hidden layer, softmax, cross entropy.
    fn mnist(&self, optimizer: &dyn Optimizer) -> Result<()> {
        let g = &self.graph;
        let (x, y_) = (g.placeholder_named("x", DType::Float, [-1, 36]), labels(g));
        let global_step = self.global_step();
        let hid_w = self.variable_of_case("hid_w")?;
        let hid_b = self.variable("hid_b", g.zeros(DType::Float, [12])?);
        let sm_w = self.variable_of_case("sm_w")?;
        let sm_b = self.variable("sm_b", g.zeros(DType::Float, [10])?);
        let loss = cross_entropy(&x, &y_, [&hid_w, &hid_b, &sm_w, &sm_b])?;
        minimize(optimizer, &loss, &global_step)?;
        self.finish()
    }

    /// The same in its real size, with weights made by arithmetic.
    fn full_mnist(&self, optimizer: &dyn Optimizer) -> Result<()> {
        let g = &self.graph;
        let (x, y_) = (g.placeholder_named("x", DType::Float, [-1, 784]), labels(g));
        let global_step = self.global_step();
        let weights = |rows: i32, columns: i32, width: f32| -> Result<Output> {
            let numbers = g.range(0, rows * columns, 1)? * 37;
            let spread = numbers.floor_mod(101)?.cast(DType::Float)? - 50.0;
            (spread * (width / 100.0)).reshape([rows, columns])
        };
        let hid_w = self.variable("hid_w", weights(784, 100, 0.1)?);
        let hid_b = self.variable("hid_b", g.zeros(DType::Float, [100])?);
        let sm_w = self.variable("sm_w", weights(100, 10, 0.2)?);
        let sm_b = self.variable("sm_b", g.zeros(DType::Float, [10])?);
        let loss = cross_entropy(&x, &y_, [&hid_w, &hid_b, &sm_w, &sm_b])?;
        minimize(optimizer, &loss, &global_step)?;
        hid_w.value().index((100..102, ..8))?;
        sm_w.value().index(..5)?;
        self.finish()
    }
}

fn minimize(optimizer: &dyn Optimizer, loss: &Output, global_step: &Variable) -> Result<()> {
    let options = MinimizeOptions { global_step: Some(global_step.clone()), ..Default::default() };
    optimizer.minimize_with(loss, &options)?;
    Ok(())
}

fn any(g: &Graph, name: &str) -> Output {
    g.placeholder_named(name, DType::Float, PartialShape::unknown())
}

fn labels(g: &Graph) -> Output {
    g.placeholder_named("y_", DType::Float, [-1, 10])
}

/// The loss of seed 004.
pub fn cross_entropy(x: &Output, y_: &Output, [hid_w, hid_b, sm_w, sm_b]: [&Variable; 4]) -> Result<Output> {
    let hidden = x.xw_plus_b(hid_w, hid_b)?.relu()?;
    let y = hidden.xw_plus_b(sm_w, sm_b)?.softmax()?;
    (y_ * y.clip_by_value(1e-10, 1.0)?.log()?).reduce_sum(..)?.neg()
}
