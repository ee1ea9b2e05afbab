"""`SyncReplicasOptimizer`: many workers, one update for the gradients of all.

The graph is the library's: accumulators beside the variables, and a queue of tokens that lets workers go on.
"""

import functools
import time

from tensorfleet import _native
from tensorfleet.framework import errors, ops
from tensorfleet.framework.composite import IndexedSlices
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor import Tensor
from tensorfleet.ops import variables
from tensorfleet.training.optimizer import Optimizer

#: How long a worker waits for a chief to begin, where a training before this one has ended.
_CHIEF_TIMEOUT_SECONDS = 60
_CHIEF_POLL_SECONDS = 0.2


class _TokenQueue:
    """The queue that the chief's queue runner is named after."""

    def __init__(self, queue_ref):
        self.queue_ref = queue_ref
        self.name = queue_ref.op.name
        self.dtypes = [queue_ref.op.get_attr("component_types")[0]]


@export("train.SyncReplicasOptimizer")
class SyncReplicasOptimizer(Optimizer):
    """Wraps an optimizer so that the gradients of several workers make one update."""

    def __init__(
        self,
        opt,
        replicas_to_aggregate,
        total_num_replicas=None,
        variable_averages=None,
        variables_to_average=None,
        use_locking=False,
        name="sync_replicas",
        replica_id=None,  # programs for older versions of TensorFlow say it
    ):
        super().__init__(use_locking, name)
        self._opt = opt
        self._replicas_to_aggregate = replicas_to_aggregate
        self._total_num_replicas = replicas_to_aggregate if total_num_replicas is None else total_num_replicas
        self._tokens_per_step = max(self._total_num_replicas, replicas_to_aggregate)
        self._variable_averages = variable_averages
        self._variables_to_average = variables_to_average
        self._gradients_applied = False
        self._global_step = None

    def compute_gradients(self, *args, **kwargs):
        return self._opt.compute_gradients(*args, **kwargs)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        """The operation that a worker runs: it gives its gradients and waits for the round to end."""
        pairs = list(grads_and_vars)
        if not pairs:
            raise ValueError("Must supply at least one variable")
        if global_step is None:
            raise ValueError("Global step is required to check staleness")
        graph = ops.get_default_graph()
        self._graph, self._global_step = graph, global_step
        var_list = [var for _, var in pairs]
        self._native = _native.SyncReplicas(
            functools.partial(self._apply, var_list),
            self._opt.get_name(),
            self._replicas_to_aggregate,
            self._total_num_replicas,
            self._name,
            None if self._variable_averages is None else self._average,
            # As the collections have them: programs move variables from one to another.
            [var._variable_native for var in variables.global_variables() if isinstance(var, variables.Variable)],
        )
        numbered = [(_numbers(self._as_gradient(grad)), var._variable_native) for grad, var in pairs]
        # The library lists the local step as its own variable.
        graph._unadopted = True
        train_op = self._native.apply_gradients(graph._native, numbered, global_step._variable_native, name)
        graph._unadopted = True
        self._local_step = variables.of_native(graph, self._native.local_step())
        self.local_step_init_op = graph._operation(self._native.local_step_init_op())
        self.chief_init_op = graph._operation(self._native.chief_init_op())
        self.ready_for_local_init_op = graph._tensor(self._native.ready_for_local_init_op())
        self._close_tokens_op = graph._operation(self._native.close_tokens_op())
        self._is_closed = graph._tensor(self._native.is_closed())
        self._chief_queue_runner = None
        self._gradients_applied = True
        # The token that the worker got.
        return graph._operation(train_op).outputs[0]

    def _apply(self, var_list, gradients):
        """Builds the update of one round from the means of its gradients, for the library."""
        pairs = [(_gradient(self._graph, numbers), var) for numbers, var in zip(gradients, var_list)]
        return self._opt.apply_gradients(pairs, self._global_step)._id

    def _average(self):
        return self._variable_averages.apply(self._variables_to_average)._id

    def get_chief_queue_runner(self):
        """What applies the rounds: the chief starts it once variables are initialised."""
        if not self._gradients_applied:
            raise ValueError("Should be called after apply_gradients().")
        if self._chief_queue_runner is None:
            from tensorfleet import train

            name, rounds, close, cancel = self._native.chief_queue_runner()
            operation = self._graph._operation
            self._chief_queue_runner = train.QueueRunner(
                _TokenQueue(operation(self._graph._native.find(name)).outputs[0]),
                [operation(number) for number in rounds],
                close_op=operation(close),
                cancel_op=operation(cancel),
                queue_closed_exception_types=(errors.OutOfRangeError, errors.CancelledError),
            )
        return self._chief_queue_runner

    def get_init_tokens_op(self, num_tokens=-1):
        """The operation that opens the token queue with the first tokens; the chief runs it after `chief_init_op`."""
        if not self._gradients_applied:
            raise ValueError("get_init_tokens_op() should be called after apply_gradients().")
        needed = self._replicas_to_aggregate - self._total_num_replicas
        if num_tokens == -1:
            num_tokens = self._replicas_to_aggregate
        elif num_tokens < needed:
            raise ValueError("Too few tokens to finish the first step: %d (given) vs %d (needed)" % (num_tokens, needed))
        with self._graph.as_default(), ops.name_scope(""):
            return self._graph._operation(self._native.init_tokens_op(self._graph._native, num_tokens))

    def get_slot(self, *args, **kwargs):
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args, **kwargs):
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self):
        return self._opt.variables()

    def make_session_run_hook(self, is_chief, num_tokens=-1):
        """A hook for monitored sessions: local steps, accumulators, and on the chief tokens and the queue runner."""
        return _hook_class()(self, is_chief, num_tokens)


def _numbers(grad):
    if grad is None:
        return []
    if isinstance(grad, Tensor):
        return [grad._id]
    if not isinstance(grad, IndexedSlices):
        raise ValueError("Unknown grad type!")
    from tensorfleet.ops import array

    shape = grad.dense_shape if grad.dense_shape is not None else array.shape(grad.values)
    return [grad.values._id, grad.indices._id, shape._id]


def _gradient(graph, numbers):
    tensors = [graph._tensor(number) for number in numbers]
    if not tensors:
        return None
    return tensors[0] if len(tensors) == 1 else IndexedSlices(*tensors)


@functools.lru_cache(maxsize=None)
def _hook_class():
    """The class of the hook; made late, because hooks are imported by those who use them."""
    from tensorfleet import train

    class _SyncReplicasOptimizerHook(train.SessionRunHook):
        """Does for synchronous training what must be done when a session begins and ends."""

        def __init__(self, sync_optimizer, is_chief, num_tokens):
            self._sync_optimizer = sync_optimizer
            self._is_chief = is_chief
            self._num_tokens = num_tokens
            self._has_begun = False

        def begin(self):
            optimizer = self._sync_optimizer
            if not optimizer._gradients_applied:
                raise ValueError("SyncReplicasOptimizer.apply_gradient should be called before using the hook.")
            self._local_init_op = optimizer.chief_init_op if self._is_chief else optimizer.local_step_init_op
            self._q_runner = optimizer.get_chief_queue_runner() if self._is_chief else None
            self._init_tokens_op = optimizer.get_init_tokens_op(self._num_tokens) if self._is_chief else None

        def after_create_session(self, session, coord):
            optimizer = self._sync_optimizer
            missing = session.run(optimizer.ready_for_local_init_op)
            if len(missing):
                names = ", ".join(name.decode() for name in missing)
                raise RuntimeError(
                    "Init operations did not make model ready for SyncReplicasOptimizer local_init. Init op: "
                    f"{self._local_init_op.name}, error: Variables not initialized: {names}"
                )
            if not self._is_chief and not self._has_begun:
                self._wait_for_chief(session)
            session.run(self._local_init_op)
            if self._is_chief:
                session.run(self._init_tokens_op)
                self._q_runner.create_threads(session, coord=coord, daemon=True, start=True)
            self._has_begun = True

        def _wait_for_chief(self, session):
            """A worker that is there before the chief must not take the end of the training before for its own."""
            waited = 0.0
            while session.run(self._sync_optimizer._is_closed):
                if waited >= _CHIEF_TIMEOUT_SECONDS:
                    raise RuntimeError("the chief has not begun: the last training on these parameter servers has ended")
                time.sleep(_CHIEF_POLL_SECONDS)
                waited += _CHIEF_POLL_SECONDS

        def end(self, session):
            """Workers that wait for a token end when the chief has ended."""
            if self._is_chief:
                session.run(self._sync_optimizer._close_tokens_op)

    return _SyncReplicasOptimizerHook
