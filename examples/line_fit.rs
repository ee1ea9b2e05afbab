//! Fits a line to points by gradient descent: how a TensorFlow program looks in Rust.

use clap::Parser;
use tensorfleet::train::{GradientDescent, Optimizer};
use tensorfleet::{DType, Graph, Result, Session};

/// Fits a line to points by gradient descent, in this process.
#[derive(Parser)]
struct Flags {}

fn main() -> Result<()> {
    let Flags {} = tensorfleet::flags::parse();
    let g = Graph::new();
    let x = g.placeholder_named("x", DType::Float, [-1]);
    let y = g.placeholder_named("y", DType::Float, [-1]);
    let w = g.variable("w", 0.0f32);
    let b = g.variable("b", 0.0f32);

    let loss = (&w * &x + &b - &y).square()?.reduce_mean(..)?;
    let train = GradientDescent::new(0.2).minimize(&loss)?;

    // Points on y = 2x + 0.2.
    let xs: Vec<f32> = (0..100).map(|i| i as f32 / 100.0).collect();
    let ys: Vec<f32> = xs.iter().map(|x| 2.0 * x + 0.2).collect();

    let session = Session::new(&g);
    session.run(g.global_variables_initializer()?)?;
    println!("step      loss         w         b");
    for step in 0..=600 {
        if step % 100 == 0 {
            let (loss, w, b) = session.feed(&x, &xs[..]).feed(&y, &ys[..]).run((&loss, &w, &b))?;
            let [loss, w, b] = [loss, w, b].map(|value| value.to_scalar::<f32>().unwrap_or(f32::NAN));
            println!("{step:4} {loss:9.6} {w:9.4} {b:9.4}");
        }
        session.feed(&x, &xs[..]).feed(&y, &ys[..]).run(&train)?;
    }
    Ok(())
}
