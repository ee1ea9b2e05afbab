"""`tf.contrib.slim`: training and evaluation loops, and helpers beside the layers."""

import time

import tensorfleet as tf
from tensorfleet.contribs import training
from tensorfleet.framework import ops
from tensorfleet.framework.export import export

_USE_DEFAULT = 0


@export("contrib.slim.learning.create_train_op")
def create_train_op(
    total_loss,
    optimizer,
    global_step=0,
    update_ops=None,
    variables_to_train=None,
    clip_gradient_norm=0,
    summarize_gradients=False,
    gate_gradients=1,
    aggregation_method=None,
    colocate_gradients_with_ops=False,
    gradient_multipliers=None,
    check_numerics=True,
):
    """An operation that trains and gives the loss."""

    def transform(gradients):
        if gradient_multipliers:
            with ops.name_scope("multiply_grads"):
                gradients = training.multiply_gradients(gradients, gradient_multipliers)
        if clip_gradient_norm > 0:
            with ops.name_scope("clip_grads"):
                gradients = training.clip_gradient_norms(gradients, clip_gradient_norm)
        return gradients

    return training.create_train_op(
        total_loss,
        optimizer,
        global_step=global_step,
        update_ops=update_ops,
        variables_to_train=variables_to_train,
        transform_grads_fn=transform,
        summarize_gradients=summarize_gradients,
        gate_gradients=gate_gradients,
        aggregation_method=aggregation_method,
        colocate_gradients_with_ops=colocate_gradients_with_ops,
        check_numerics=check_numerics,
    )


@export("contrib.slim.learning.train_step")
def train_step(sess, train_op, global_step, train_step_kwargs):
    """One step: gives the loss and whether to stop."""
    start = time.time()
    loss, step = sess.run([train_op, global_step])
    elapsed = time.time() - start
    if "should_log" in train_step_kwargs and sess.run(train_step_kwargs["should_log"]):
        tf.logging.info("global step %d: loss = %.4f (%.3f sec/step)", step, loss, elapsed)
    should_stop = sess.run(train_step_kwargs["should_stop"]) if "should_stop" in train_step_kwargs else False
    return loss, should_stop


@export("contrib.slim.learning.train")
def train(
    train_op,
    logdir,
    train_step_fn=train_step,
    train_step_kwargs=_USE_DEFAULT,
    log_every_n_steps=1,
    graph=None,
    master="",
    is_chief=True,
    global_step=None,
    number_of_steps=None,
    init_op=_USE_DEFAULT,
    init_feed_dict=None,
    local_init_op=_USE_DEFAULT,
    init_fn=None,
    ready_op=_USE_DEFAULT,
    summary_op=_USE_DEFAULT,
    save_summaries_secs=600,
    summary_writer=_USE_DEFAULT,
    startup_delay_steps=0,
    saver=None,
    save_interval_secs=600,
    sync_optimizer=None,
    session_config=None,
    session_wrapper=None,
    trace_every_n_steps=None,
    ignore_live_threads=False,
):
    """Runs `train_op` under a supervisor until the number of steps is reached; gives the last loss."""
    if train_op is None:
        raise ValueError("train_op cannot be None.")
    if logdir is None and trace_every_n_steps is not None:
        raise ValueError("logdir cannot be None when trace_every_n_steps is not None")
    if sync_optimizer is not None and startup_delay_steps > 0:
        raise ValueError("startup_delay_steps must be zero when sync_optimizer is supplied.")
    if number_of_steps is not None and number_of_steps <= 0:
        raise ValueError("`number_of_steps` must be either None or a positive number.")
    graph = graph or ops.get_default_graph()
    with graph.as_default():
        if global_step is None:
            global_step = tf.train.get_or_create_global_step()
        saver = saver or tf.train.Saver()
        optimizers = [] if sync_optimizer is None else sync_optimizer if isinstance(sync_optimizer, (list, tuple)) else [sync_optimizer]
        with ops.name_scope("init_ops"):
            if init_op == _USE_DEFAULT:
                init_op = tf.global_variables_initializer()
            if ready_op == _USE_DEFAULT:
                ready_op = tf.report_uninitialized_variables()
            if local_init_op == _USE_DEFAULT:
                local_init_op = tf.group(tf.local_variables_initializer(), tf.tables_initializer())
        ready_for_local_init_op, tokens = None, []
        if optimizers:
            with ops.control_dependencies([local_init_op] if local_init_op is not None else []):
                local_init_op = tf.group(*[optimizer.chief_init_op if is_chief else optimizer.local_step_init_op for optimizer in optimizers])
            ready_for_local_init_op = optimizers[0].ready_for_local_init_op
            if is_chief:
                tokens = [optimizer.get_init_tokens_op() for optimizer in optimizers]
                for optimizer in optimizers:
                    tf.train.add_queue_runner(optimizer.get_chief_queue_runner())
        if summary_op == _USE_DEFAULT:
            summary_op = tf.summary.merge_all()
        if summary_writer == _USE_DEFAULT:
            summary_writer = tf.train.Supervisor.USE_DEFAULT
        if train_step_kwargs == _USE_DEFAULT:
            train_step_kwargs = {}
            with ops.name_scope("train_step"):
                if number_of_steps:
                    train_step_kwargs["should_stop"] = tf.greater_equal(global_step, number_of_steps)
                else:
                    train_step_kwargs["should_stop"] = tf.constant(False)
                if log_every_n_steps > 0:
                    train_step_kwargs["should_log"] = tf.equal(tf.mod(global_step, log_every_n_steps), 0)
            train_step_kwargs["logdir"] = logdir
    supervisor = tf.train.Supervisor(
        graph=graph,
        is_chief=is_chief,
        logdir=logdir,
        init_op=init_op,
        init_feed_dict=init_feed_dict,
        local_init_op=local_init_op,
        ready_for_local_init_op=ready_for_local_init_op,
        ready_op=ready_op,
        summary_op=summary_op,
        summary_writer=summary_writer,
        global_step=global_step,
        saver=saver,
        save_summaries_secs=save_summaries_secs,
        save_model_secs=save_interval_secs,
        init_fn=init_fn,
    )
    if summary_writer is not None:
        train_step_kwargs["summary_writer"] = supervisor.summary_writer
    total_loss = None
    with supervisor.managed_session(master, start_standard_services=False, config=session_config) as sess:
        if session_wrapper is not None:
            sess = session_wrapper(sess)
        if is_chief:
            if logdir:
                supervisor.start_standard_services(sess)
        elif startup_delay_steps > 0:
            _wait_for_step(sess, global_step, min(startup_delay_steps, number_of_steps or startup_delay_steps))
        supervisor.start_queue_runners(sess)
        for op in tokens:
            sess.run(op)
        try:
            while not supervisor.should_stop():
                total_loss, should_stop = train_step_fn(sess, train_op, global_step, train_step_kwargs)
                if should_stop:
                    tf.logging.info("Stopping Training.")
                    supervisor.request_stop()
                    break
        except tf.errors.OutOfRangeError as error:
            # An input that ends tells it so.
            tf.logging.info("Caught OutOfRangeError. Stopping Training. %s", error)
        if logdir and supervisor.is_chief:
            tf.logging.info("Finished training! Saving model to disk.")
            supervisor.saver.save(sess, supervisor.save_path, global_step=supervisor.global_step)
            supervisor.stop(threads=[], close_summary_writer=True, ignore_live_threads=ignore_live_threads)
    return total_loss


def _wait_for_step(sess, global_step, step):
    while sess.run(global_step) < step:
        tf.logging.info("Waiting for step %d before starting training.", step)
        time.sleep(1)


# ---- evaluation


@export("contrib.slim.evaluation.evaluate_once")
def evaluate_once(
    master,
    checkpoint_path,
    logdir,
    num_evals=1,
    initial_op=None,
    initial_op_feed_dict=None,
    eval_op=None,
    eval_op_feed_dict=None,
    final_op=None,
    final_op_feed_dict=None,
    summary_op=_USE_DEFAULT,
    summary_op_feed_dict=None,
    variables_to_restore=None,
    session_config=None,
    hooks=None,
):
    """Evaluates a checkpoint once, writes summaries, and gives the value of `final_op`."""
    if summary_op == _USE_DEFAULT:
        summary_op = tf.summary.merge_all()
    all_hooks = [training.StopAfterNEvalsHook(num_evals)] + list(hooks or [])
    scaffold = tf.train.Scaffold(init_op=initial_op, init_feed_dict=initial_op_feed_dict, saver=tf.train.Saver(variables_to_restore) if variables_to_restore is not None else None)
    final = [final_op] if final_op is not None else []
    if summary_op is not None:
        final.append(summary_op)
    feeds = dict(final_op_feed_dict or {})
    feeds.update(summary_op_feed_dict or {})
    values = training.evaluate_once(checkpoint_path, master, scaffold, eval_op if eval_op is not None else tf.no_op(), eval_op_feed_dict, final or None, feeds or None, all_hooks, session_config)
    if values is None:
        return None
    if summary_op is not None:
        writer = tf.summary.FileWriter(logdir)
        step = tf.train.get_global_step()
        number = tf.train.load_variable(checkpoint_path, step.op.name) if step is not None else None
        writer.add_summary(values[-1], number)
        writer.close()
    return values[0] if final_op is not None else None


@export("contrib.slim.evaluation.evaluation_loop")
def evaluation_loop(
    master,
    checkpoint_dir,
    logdir,
    num_evals=1,
    initial_op=None,
    initial_op_feed_dict=None,
    init_fn=None,
    eval_op=None,
    eval_op_feed_dict=None,
    final_op=None,
    final_op_feed_dict=None,
    summary_op=_USE_DEFAULT,
    summary_op_feed_dict=None,
    variables_to_restore=None,
    eval_interval_secs=60,
    max_number_of_evaluations=None,
    session_config=None,
    timeout=None,
    timeout_fn=None,
    hooks=None,
):
    """Evaluates each new checkpoint."""
    value = None
    for number, path in enumerate(training.checkpoints_iterator(checkpoint_dir, eval_interval_secs, timeout, timeout_fn), 1):
        value = evaluate_once(
            master, path, logdir, num_evals, initial_op, initial_op_feed_dict, eval_op, eval_op_feed_dict, final_op, final_op_feed_dict, summary_op, summary_op_feed_dict,
            variables_to_restore, session_config, hooks,
        )  # fmt: skip
        if max_number_of_evaluations is not None and number >= max_number_of_evaluations:
            break
    return value


# ---- helpers


@export("contrib.slim.utils.convert_collection_to_dict", "contrib.layers.utils.convert_collection_to_dict")
def convert_collection_to_dict(collection, clear_collection=False):
    """A collection of outputs by their aliases."""
    found = {}
    for value in ops.get_collection(collection):
        for alias in getattr(value, "aliases", None) or [value.op.name]:
            found[alias] = value
    if clear_collection:
        ops.get_default_graph().clear_collection(collection)
    return found


@export("contrib.slim.model_analyzer.analyze_vars")
def analyze_vars(variables, print_info=False):
    """How many elements and bytes variables have."""
    size = count = 0
    for variable in variables:
        elements = variable.shape.num_elements() or 0
        count += elements
        size += elements * variable.dtype.base_dtype.size
        if print_info:
            print(variable.name, tuple(variable.shape.as_list()), elements)
    if print_info:
        print("Total size of variables: %d" % count)
        print("Total bytes of variables: %d" % size)
    return count, size
