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
///     let a = g.placeholder(DType::Float, [2, 2]);
///     let (b, labels, ids, p) = (a.clone(), a.clone(), g.constant([0i64]), g.constant(true));
///     let _ = (a.round()?, a.elu()?, a.cumsum(1)?, a.pad([[0, 1], [0, 1]])?);
///     let _ = (g.concat([&a, &b], 0)?, g.stack([&a, &b])?, a.split(2, 1)?, a.gather(&ids)?, ids.one_hot(10)?);
///     let _ = (a.index((.., 1..))?, a.top_k(1)?, a.in_top_k([0, 1], 1)?, g.einsum("ij,jk->ik", (&a, &b))?);
///     let _ = a.matmul_with(&b, MatMulOptions { transpose_b: true, ..Default::default() })?;
///     let _ = a.op("AddV2").input(&b).attr("T", DType::Float).output()?;
///     let _ = g.cond(&p, || Ok(a.clone()), || Ok(b.clone()))?;
///     let (i, x0) = (g.constant(0), g.constant(1.0f32));
///     let _ = g.while_loop([i, x0], |[i, _]| i.less(10), |[i, x]| Ok([i + 1, x * 2.0]))?;
///     let op = g.no_op()?;
///     let _ = g.control_dependencies([&op], || g.group([&op, &op]))?;
///     let _ = g.gradients([&a], [&b])?;
///     let _ = (a.print((&a,), "a is ")?, g.assert(&p, (&a,))?, a.check_numerics("a")?);
///     let images = g.placeholder(DType::Float, [-1, 28, 28, 1]);
///     let t = g.placeholder(DType::Bool, ());
///     let _ = g.dense(100).activation(Output::relu).kernel_regularizer(Regularizer::l2(1e-4)).build(&a)?;
///     let c = g.conv2d(32, 5).padding(Padding::Same).build(&images)?;
///     let _ = (g.max_pool2d(2, 2).build(&c)?, g.avg_pool2d(2, 2).build(&c)?, g.flatten(&c)?);
///     let _ = (g.dropout(0.5).training(&t).build(&a)?, a.dropout(0.5, None)?);
///     let _ = (g.batch_normalization().training(&t).build(&c)?, g.update_ops());
///     let cell = LstmCell::new(128);
///     let _ = g.dynamic_rnn(&cell).build(&g.placeholder(DType::Float, [2, 7, 3]))?;
///     let _ = g.new_variable_scope("layer").reuse(Reuse::Auto).enter(|| g.no_op())?;
///     let _ = Loss::new().weights(&a).mean_squared_error(&labels, &a)?;
///     let classes = g.constant([0, 1]);
///     let _ = Loss::new().sparse_softmax_cross_entropy(&classes, &a)?;
///     let _ = (a.softmax_cross_entropy(&b)?, a.sigmoid_cross_entropy(&b)?, a.sparse_softmax_cross_entropy(&classes)?);
///     let metric = Metric::new().accuracy(&labels, &a)?;
///     let _ = (g.get_total_loss()?, metric.update, metric.value, g.local_variables_initializer()?);
///     let table = g.get_variable("table").shape([8, 16]).partitioner(Partitioner::fixed_size(2)).build()?;
///     let _ = g.embedding_lookup(&table, &ids, PartitionStrategy::Mod)?;
///     let words = SparseTensor::placeholder(&g, DType::Int64);
///     let _ = g.embedding_lookup_sparse(&table, &words, None, Combiner::Mean, PartitionStrategy::Mod)?;
///     let biases = g.variable("biases", g.zeros(DType::Float, [8])?);
///     let of = || SampledLoss::new(&table, &biases, 8).num_sampled(4).partition_strategy(PartitionStrategy::Div);
///     let inputs = g.placeholder(DType::Float, [1, 16]);
///     let label = g.constant([[0i64]]);
///     let _ = (of().nce(&label, &inputs)?, of().softmax(&label, &inputs)?);
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

#[doc = include_str!("../docs/input.md")]
mod input {}

#[doc = include_str!("../docs/tensorboard.md")]
mod tensorboard {}

#[doc = include_str!("../README.md")]
mod readme {}
