//! The guides of `docs/` and the README, so that the programs in them are compiled and run with the other tests.

#[doc = include_str!("../docs/concepts.md")]
mod concepts {}

#[doc = include_str!("../docs/placement.md")]
mod placement {}

#[doc = include_str!("../docs/sync-and-async.md")]
mod sync_and_async {}

#[doc = include_str!("../docs/fault-tolerance.md")]
mod fault_tolerance {}

#[doc = include_str!("../docs/compatibility.md")]
mod compatibility {}

#[doc = include_str!("../docs/porting.md")]
mod porting {}

/// The right column of the table in the porting guide, so that it stays true.
///
/// ```no_run
/// # use clap::Parser;
/// use tensorfleet::flags::TaskFlags;
/// use tensorfleet::train::*;
/// use tensorfleet::*;
/// use tensorfleet_datasets::mnist;
///
/// #[derive(Parser)]
/// struct Flags {
///     #[command(flatten)]
///     task: TaskFlags,
/// }
///
/// fn main() -> Result<()> {
///     let flags = Flags::parse();
///     let (_, _) = flags.task.resolve()?;
///     let cluster = ClusterSpec::new([("ps", vec!["a:1"]), ("worker", vec!["b:1", "c:1"])])?;
///     let _ = ClusterSpec::from_hosts("a:1", "b:1,c:1")?;
///     let server = Server::start(ServerOptions::new(cluster.clone(), "ps", 0))?;
///     let (_, target) = (Server::local()?, server.target());
///     server.join()?;
///
///     let g = Graph::new();
///     g.set_random_seed(7);
///     let setter = replica_device_setter().cluster(&cluster).worker_device("/job:worker/task:1");
///     let w = g.device(setter, || g.variable("a", 1.0f32));
///     let x = g.placeholder(DType::Float, [-1, 784]);
///     let _ = (g.constant("hello"), g.placeholder(DType::Float, PartialShape::unknown()));
///     let step = g.new_variable("global_step").untrainable().init(0);
///     let m = g.get_variable("w").shape([784, 3]).initializer(Initializer::zeros()).build()?;
///     let _ = (g.get_or_create_global_step()?, g.random_normal([1], 0.0, 1.0)?);
///     let _ = (g.truncated_normal([784, 100], 0.0, 0.1)?, g.zeros(DType::Float, [100])?);
///     let _ = (&x + &w, x.mul(&w)?, x.pow(2.0)?, x.square()?, x.matmul(&m)?);
///     let y = x.xw_plus_b(&m, [0.0f32; 3])?.relu()?.softmax()?.log()?.clip_by_value(1e-10, 1.0)?;
///     let loss = y.reduce_sum(1)?.reduce_mean(..)?;
///     let _ = y.argmax(1)?.equal(y.argmax(1)?)?.cast(DType::Float)?;
///     let _ = g.op("Square").input(&x).attr("T", DType::Float).build()?;
///     let init = g.global_variables_initializer()?;
///     let _ = (g.scalar_summary("loss", &loss)?, g.merge_all_summaries()?);
///
///     let options = SessionOptions { allow_soft_placement: true, ..Default::default() };
///     let session = Session::connect_with("grpc://host:2222", &g, options.clone())?;
///     session.run(&y)?;
///     let _ = (GradientDescent::new(0.01).minimize(&loss)?, Adagrad::new(0.8));
///     let minimize = MinimizeOptions { global_step: Some(step.clone()), ..Default::default() };
///     let train = Adam::new(0.01).minimize_with(&loss, &minimize)?;
///     let a = mnist::embedded()?.train.next_batch(100)?.0;
///     session.feed(&x, a).run((&train, &step))?;
///     let _ = session.prepare(&[&x], &train)?;
///     let opt = SyncReplicasOptimizer::new(Adam::new(0.01), 2).total_num_replicas(3);
///     let _ = opt.compute_gradients(&loss, &minimize)?;
///     opt.minimize_with(&loss, &minimize)?;
///     let _ = (opt.get_chief_queue_runner()?, opt.get_init_tokens_op(None)?, opt.make_session_hook(true)?);
///
///     let saver = Saver::builder(&g).max_to_keep(1).build()?;
///     saver.save(&session, "model.ckpt", Some(7))?;
///     saver.restore(&session, "model.ckpt-7")?;
///     let _ = latest_checkpoint(".")?;
///     let sv = Supervisor::builder(&g).is_chief(true).logdir(".").init_op(&init).config(options).build()?;
///     sv.managed_session(&target, |session| session.run(&train))?;
///     let _ = (sv.prepare_or_wait_for_session(&target)?, sv.should_stop(), sv.saver());
///     sv.stop()?;
///     let hook = StopAtStepHook::last_step(7);
///     let monitored = MonitoredTrainingSession::new(&g).master(&target).is_chief(true).checkpoint_dir(".").hook(hook);
///     monitored.create()?.train(|session| session.run(&train).map(drop))?;
///     let _ = (mnist::read_data_sets(".".as_ref())?, mnist::embedded()?.validation.images()?);
///     Ok(())
/// }
/// ```
mod table_of_porting {}

#[doc = include_str!("../README.md")]
mod readme {}
