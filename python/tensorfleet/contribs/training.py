"""`tf.contrib.training`: training operations, hyperparameters, waiting for checkpoints."""

import time

import tensorfleet as tf
from tensorfleet.framework import ops
from tensorfleet.framework.export import export

#: Stands for the graph's global step, as TensorFlow's default does.
_USE_GLOBAL_STEP = 0


@export("contrib.training.add_gradients_summaries", "contrib.slim.learning.add_gradients_summaries")
def add_gradients_summaries(grads_and_vars):
    """Histograms and norms of gradients."""
    summaries = []
    for gradient, variable in grads_and_vars:
        if gradient is None:
            tf.logging.info("Var %s has no gradient", variable.op.name)
            continue
        values = gradient.values if isinstance(gradient, ops.IndexedSlices) else gradient
        summaries.append(tf.summary.histogram(variable.op.name + "_gradient", values))
        summaries.append(tf.summary.scalar(variable.op.name + "_gradient_norm", tf.global_norm([values])))
    return summaries


@export("contrib.training.clip_gradient_norms", "contrib.slim.learning.clip_gradient_norms")
def clip_gradient_norms(gradients_to_variables, max_norm):
    """Gradients cut to a length."""
    clipped = []
    for gradient, variable in gradients_to_variables:
        if gradient is not None:
            if isinstance(gradient, ops.IndexedSlices):
                gradient = ops.IndexedSlices(tf.clip_by_norm(gradient.values, max_norm), gradient.indices, gradient.dense_shape)
            else:
                gradient = tf.clip_by_norm(gradient, max_norm)
        clipped.append((gradient, variable))
    return clipped


@export("contrib.training.clip_gradient_norms_fn")
def clip_gradient_norms_fn(max_norm):
    """A function that cuts gradients to a length."""
    return lambda gradients_to_variables: clip_gradient_norms(gradients_to_variables, max_norm)


@export("contrib.training.multiply_gradients", "contrib.slim.learning.multiply_gradients")
def multiply_gradients(grads_and_vars, gradient_multipliers):
    """Gradients times a factor for some variables."""
    if not isinstance(grads_and_vars, list):
        raise ValueError("`grads_and_vars` must be a list.")
    if not gradient_multipliers:
        raise ValueError("`gradient_multipliers` is empty.")
    if not isinstance(gradient_multipliers, dict):
        raise ValueError("`gradient_multipliers` must be a dict.")
    multiplied = []
    for gradient, variable in grads_and_vars:
        key = variable if variable in gradient_multipliers else variable.op.name
        if key in gradient_multipliers:
            if gradient is None:
                raise ValueError("Requested multiple of `None` gradient.")
            factor = ops.convert_to_tensor(gradient_multipliers[key], dtype=gradient.dtype.base_dtype)
            if isinstance(gradient, ops.IndexedSlices):
                gradient = ops.IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
            else:
                gradient *= factor
        multiplied.append((gradient, variable))
    return multiplied


@export("contrib.training.create_train_op")
def create_train_op(
    total_loss,
    optimizer,
    global_step=_USE_GLOBAL_STEP,
    update_ops=None,
    variables_to_train=None,
    transform_grads_fn=None,
    summarize_gradients=False,
    gate_gradients=1,
    aggregation_method=None,
    colocate_gradients_with_ops=False,
    check_numerics=True,
):
    """An operation that updates, computes gradients, applies them, and gives the loss."""
    if global_step is _USE_GLOBAL_STEP:
        global_step = tf.train.get_or_create_global_step()
    known = ops.get_collection(ops.GraphKeys.UPDATE_OPS)
    if update_ops is None:
        update_ops = known
    elif not set(known).issubset(set(update_ops)):
        tf.logging.warning("update_ops in create_train_op does not contain all the update_ops in GraphKeys.UPDATE_OPS")
    if update_ops:
        with ops.control_dependencies(list(update_ops)):
            barrier = tf.no_op(name="update_barrier")
        total_loss = _after([barrier], total_loss)
    if variables_to_train is None:
        variables_to_train = tf.trainable_variables()
    else:
        for variable in variables_to_train:
            assert variable.trainable or variable in tf.trainable_variables()
    assert variables_to_train
    gradients = optimizer.compute_gradients(
        total_loss, variables_to_train, gate_gradients=gate_gradients, aggregation_method=aggregation_method, colocate_gradients_with_ops=colocate_gradients_with_ops
    )
    if transform_grads_fn:
        gradients = transform_grads_fn(gradients)
    if summarize_gradients:
        with ops.name_scope("summarize_grads"):
            add_gradients_summaries(gradients)
    applied = optimizer.apply_gradients(gradients, global_step=global_step)
    with ops.name_scope("train_op"):
        if check_numerics:
            total_loss = tf.check_numerics(total_loss, "LossTensor is inf or nan")
        train_op = _after([applied], total_loss)
    kept = ops.get_collection_ref(ops.GraphKeys.TRAIN_OP)
    if not any(train_op is item for item in kept):
        kept.append(train_op)
    return train_op


def _after(dependencies, tensor):
    """The tensor, once other operations have run."""
    with ops.name_scope(None, "control_dependency", list(dependencies) + [tensor]) as name:
        with ops.colocate_with(tensor), ops.control_dependencies(dependencies):
            return tf.identity(tensor, name=name)


@export("contrib.training.train")
def train(
    train_op,
    logdir,
    master="",
    is_chief=True,
    scaffold=None,
    hooks=None,
    chief_only_hooks=None,
    save_checkpoint_secs=600,
    save_summaries_steps=100,
    config=None,
    max_wait_secs=7200,
    run_metadata=None,
):
    """Runs `train_op` until a hook stops it; gives the last loss."""
    if logdir is None and is_chief:
        if save_summaries_steps:
            raise ValueError("logdir cannot be None when save_summaries_steps is not None")
        if save_checkpoint_secs:
            raise ValueError("logdir cannot be None when save_checkpoint_secs is not None")
    with tf.train.MonitoredTrainingSession(
        master=master,
        is_chief=is_chief,
        checkpoint_dir=logdir,
        scaffold=scaffold,
        hooks=hooks,
        chief_only_hooks=chief_only_hooks,
        save_checkpoint_secs=save_checkpoint_secs,
        save_summaries_steps=save_summaries_steps,
        config=config,
        max_wait_secs=max_wait_secs,
    ) as session:
        loss = None
        while not session.should_stop():
            loss = session.run(train_op, run_metadata=run_metadata)
    return loss


# ---- checkpoints


@export("contrib.training.wait_for_new_checkpoint", "contrib.slim.evaluation.wait_for_new_checkpoint")
def wait_for_new_checkpoint(checkpoint_dir, last_checkpoint=None, seconds_to_sleep=1, timeout=None):
    """The path of a checkpoint other than the last one, or `None` when time is over."""
    tf.logging.info("Waiting for new checkpoint at %s", checkpoint_dir)
    end = time.time() + timeout if timeout is not None else None
    while True:
        path = tf.train.latest_checkpoint(checkpoint_dir)
        if path is not None and path != last_checkpoint:
            return path
        if end is not None and time.time() + seconds_to_sleep > end:
            return None
        time.sleep(seconds_to_sleep)


@export("contrib.training.checkpoints_iterator", "contrib.slim.evaluation.checkpoints_iterator")
def checkpoints_iterator(checkpoint_dir, min_interval_secs=0, timeout=None, timeout_fn=None):
    """Yields the path of each new checkpoint."""
    path = None
    while True:
        path_ = wait_for_new_checkpoint(checkpoint_dir, path, timeout=timeout)
        if path_ is None:
            if not timeout_fn or timeout_fn():
                return
            continue
        start, path = time.time(), path_
        yield path
        remaining = start + min_interval_secs - time.time()
        if remaining > 0:
            time.sleep(remaining)


@export("contrib.training.evaluate_once")
def evaluate_once(checkpoint_path, master="", scaffold=None, eval_ops=None, feed_dict=None, final_ops=None, final_ops_feed_dict=None, hooks=None, config=None):
    """Restores a checkpoint, runs the evaluation until a hook stops it, and gives the values of `final_ops`."""
    final = None
    if final_ops is not None:
        final = tf.train.FinalOpsHook(final_ops, final_ops_feed_dict)
        hooks = list(hooks or []) + [final]
    creator = tf.train.ChiefSessionCreator(scaffold=scaffold, checkpoint_filename_with_path=checkpoint_path, master=master, config=config)
    with tf.train.MonitoredSession(session_creator=creator, hooks=hooks) as session:
        if eval_ops is not None:
            while not session.should_stop():
                session.run(eval_ops, feed_dict)
    return final.final_ops_values if final is not None else None


@export("contrib.training.get_or_create_eval_step")
def get_or_create_eval_step():
    """The variable that counts evaluations."""
    found = ops.get_collection(ops.GraphKeys.EVAL_STEP)
    if len(found) == 1:
        return found[0]
    if found:
        raise ValueError("Multiple tensors added to tf.GraphKeys.EVAL_STEP")
    return tf.get_variable(
        "eval_step", shape=[], dtype=tf.int64, initializer=tf.zeros_initializer(), trainable=False, collections=[ops.GraphKeys.LOCAL_VARIABLES, ops.GraphKeys.EVAL_STEP]
    )


@export("contrib.training.StopAfterNEvalsHook")
def StopAfterNEvalsHook(num_evals, log_progress=True):
    """A hook that ends an evaluation after a number of runs."""

    class Hook(tf.train.SessionRunHook):
        def __init__(self):
            self._count = 0

        def after_run(self, run_context, run_values):
            self._count += 1
            if log_progress:
                tf.logging.info("Evaluation [%d/%s]", self._count, num_evals)
            if num_evals is not None and self._count >= num_evals:
                run_context.request_stop()

    return Hook()
