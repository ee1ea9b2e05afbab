//! Prototype.
use clap::Parser;
use std::time::{Duration, Instant};
use tensorfleet::flags::TaskFlags;
use tensorfleet::train::{
    Adam, MinimizeOptions, MonitoredTrainingSession, Optimizer, StopAtStepHook, SyncReplicasOptimizer,
};
use tensorfleet::*;
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    task: TaskFlags,
    #[arg(long = "train_steps", default_value_t = 2000)]
    train_steps: i64,
    #[arg(long)]
    sync: bool,
}
fn main() -> Result<()> {
    let flags = Flags::parse();
    let (cluster, task) = flags.task.resolve()?;
    let server = Server::start(ServerOptions::new(cluster.clone(), &task.job, task.index))?;
    if task.job == "ps" {
        return server.join();
    }
    let me = format!("/job:worker/task:{}", task.index);
    let setter = replica_device_setter().cluster(&cluster).worker_device(&me);
    let g = Graph::new();
    let n = cluster.num_tasks("worker")?;
    let (x, y_, train, gs, sync) = g.device(setter, || -> Result<_> {
        let gs = g.get_or_create_global_step()?;
        let (x, y_) = (g.placeholder(DType::Float, [-1, 784]), g.placeholder(DType::Float, [-1, 10]));
        let hid_w = g.variable("hid_w", g.truncated_normal([784, 100], 0.0, 1.0 / 28.0)?);
        let hid_b = g.variable("hid_b", g.zeros(DType::Float, [100])?);
        let sm_w = g.variable("sm_w", g.truncated_normal([100, 10], 0.0, 0.1)?);
        let sm_b = g.variable("sm_b", g.zeros(DType::Float, [10])?);
        let hid = x.xw_plus_b(&hid_w, &hid_b)?.relu()?;
        let y = hid.xw_plus_b(&sm_w, &sm_b)?.softmax()?;
        let ce = (&y_ * y.clip_by_value(1e-10f32, 1.0f32)?.log()?).reduce_sum(..)?.neg()?;
        let o = MinimizeOptions { global_step: Some(gs.clone()), ..Default::default() };
        if flags.sync {
            let opt = SyncReplicasOptimizer::new(Adam::new(0.01), n).total_num_replicas(n);
            let t = opt.minimize_with(&ce, &o)?;
            let hook = opt.make_session_hook(task.index == 0)?;
            Ok((x, y_, t, gs, Some(hook)))
        } else {
            Ok((x, y_, Adam::new(0.01).minimize_with(&ce, &o)?, gs, None))
        }
    })?;
    let mut b = MonitoredTrainingSession::new(&g)
        .master(&server.target())
        .is_chief(task.index == 0)
        .config(SessionOptions { device_filters: vec!["/job:ps".into(), me], ..Default::default() })
        .log_step_count_steps(None);
    if let Some(h) = sync {
        b = b.hook(h);
    }
    let mut s = b.hook(StopAtStepHook::last_step(i64::MAX / 2)).create()?;
    let images = Tensor::from_slice(&vec![0.3f32; 78400], &[100, 784])?;
    let labels = Tensor::from_slice(
        &(0..1000).map(|i| if i % 11 == 0 { 1.0f32 } else { 0.0 }).collect::<Vec<_>>(),
        &[100, 10],
    )?;
    let begin = Instant::now();
    let mut local = 0;
    let mut first = None;
    loop {
        let (_, step) = s.feed(&x, images.clone()).feed(&y_, labels.clone()).run((&train, &gs))?;
        let step = step.to_scalar::<i64>()?;
        local += 1;
        let f = *first.get_or_insert((Instant::now(), step));
        if step >= flags.train_steps {
            let dt = f.0.elapsed().as_secs_f64();
            println!(
                "worker {}: local {local} in {:?}; {:.0} global steps/s, {:.0} local/s",
                task.index,
                begin.elapsed(),
                (step - f.1) as f64 / dt,
                local as f64 / dt
            );
            break;
        }
    }
    if task.index == 0 {
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}
