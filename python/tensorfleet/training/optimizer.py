"""`Optimizer`: what turns gradients into changes of variables.

Classes of programs derive from it, so what happens around an update (names, scopes, colocation, the step counter) is here.
The update rules of the optimizers in `optimizers.py` are the library's.
"""

from tensorfleet.framework import dtypes, ops
from tensorfleet.framework.composite import IndexedSlices
from tensorfleet.framework.export import export
from tensorfleet.framework.keys import GraphKeys
from tensorfleet.framework.tensor import Tensor
from tensorfleet.ops.variables import Variable
from tensorfleet.training import slot_creator


def _var_key(var):
    return (var.op.graph, var.op.name)


def _deduplicate_indexed_slices(values, indices):
    """The sums of the rows that have the same index, and these indices."""
    graph = values.graph
    summed, unique = graph._native.sum_duplicates(values._id, indices._id)
    return graph._tensor(summed), graph._tensor(unique)


def _target(var):
    """What gradients are taken with respect to: a tensor as it is, a variable through its reference or handle."""
    if isinstance(var, Variable):
        return var if var._is_resource else var._ref()
    if isinstance(var, Tensor):
        return var
    raise NotImplementedError("Trying to optimize unsupported type ", var)


def _update(optimizer, grad, var):
    """The operation that changes `var` by `grad`."""
    if not isinstance(var, Variable):
        raise NotImplementedError("Trying to update a Tensor ", var)
    if isinstance(grad, IndexedSlices):
        if var.constraint is not None:
            raise RuntimeError("Cannot use a constraint function on a sparse variable.")
        if var._is_resource:
            return optimizer._resource_apply_sparse_duplicate_indices(grad.values, var, grad.indices)
        return optimizer._apply_sparse_duplicate_indices(grad, var)
    update = optimizer._resource_apply_dense(grad, var) if var._is_resource else optimizer._apply_dense(grad, var)
    if var.constraint is None:
        return update
    with ops.control_dependencies([update]):
        return var.assign(var.constraint(var))


@export("train.Optimizer")
class Optimizer:
    """The base of optimizers. A class of its own defines `_apply_dense`, `_apply_sparse` and their forms for resource variables."""

    GATE_NONE = 0
    GATE_OP = 1
    GATE_GRAPH = 2

    def __init__(self, use_locking, name):
        if not name:
            raise ValueError("Must specify the optimizer name")
        self._use_locking = use_locking
        self._name = name
        #: Slot name -> (graph, variable name) -> variable.
        self._slots = {}
        #: (Name, graph) -> variable of all that is trained.
        self._non_slot_dict = {}

    def get_name(self):
        return self._name

    # ---- what programs call

    def minimize(
        self,
        loss,
        global_step=None,
        var_list=None,
        gate_gradients=GATE_OP,
        aggregation_method=None,
        colocate_gradients_with_ops=False,
        name=None,
        grad_loss=None,
    ):
        """An operation that makes one step towards a smaller `loss`."""
        grads_and_vars = self.compute_gradients(
            loss,
            var_list=var_list,
            gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            grad_loss=grad_loss,
        )
        if all(grad is None for grad, _ in grads_and_vars):
            raise ValueError(
                "No gradients provided for any variable, check your graph for ops that do not support gradients, between "
                f"variables {[str(var) for _, var in grads_and_vars]} and loss {loss}."
            )
        return self.apply_gradients(grads_and_vars, global_step=global_step, name=name)

    def compute_gradients(
        self, loss, var_list=None, gate_gradients=GATE_OP, aggregation_method=None, colocate_gradients_with_ops=False, grad_loss=None
    ):
        """Pairs of a gradient of `loss` and its variable; the gradient is `None` where `loss` does not depend on the variable."""
        from tensorfleet.ops import control_flow, gradients

        if callable(loss) and not isinstance(loss, (Tensor, Variable)):
            loss = loss()
        if gate_gradients not in (Optimizer.GATE_NONE, Optimizer.GATE_OP, Optimizer.GATE_GRAPH):
            raise ValueError(
                f"gate_gradients must be one of: Optimizer.GATE_NONE, Optimizer.GATE_OP, Optimizer.GATE_GRAPH.  Not {gate_gradients}"
            )
        self._assert_valid_dtypes([loss])
        if grad_loss is not None:
            self._assert_valid_dtypes([grad_loss])
        var_list = self._variables_to_train(var_list)
        if not var_list:
            raise ValueError("No variables to optimize.")
        grads = gradients.gradients(
            loss,
            [_target(var) for var in var_list],
            grad_ys=grad_loss,
            gate_gradients=gate_gradients == Optimizer.GATE_OP,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
        )
        if gate_gradients == Optimizer.GATE_GRAPH:
            grads = control_flow.tuple_v1(grads)
        pairs = list(zip(grads, var_list))
        self._assert_valid_dtypes([var for grad, var in pairs if grad is not None and var.dtype != dtypes.resource])
        return pairs

    @staticmethod
    def _variables_to_train(var_list):
        if var_list is None:
            found = ops.get_collection(GraphKeys.TRAINABLE_VARIABLES) + ops.get_collection(GraphKeys.TRAINABLE_RESOURCE_VARIABLES)
        else:
            from tensorfleet.platform import nest

            found = []
            for item in nest.flatten(var_list):
                # A partitioned variable stands for its parts.
                found.extend(item) if hasattr(item, "_get_variable_list") else found.append(item)
        return found + ops.get_collection(GraphKeys._STREAMING_MODEL_PORTS)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        """An operation that applies gradients, and then increments `global_step`."""
        pairs = [(self._as_gradient(grad), var) for grad, var in tuple(grads_and_vars)]
        if not pairs:
            raise ValueError("No variables provided.")
        for _, var in pairs:
            _target(var)
        trained = [var for grad, var in pairs if grad is not None]
        if not trained:
            raise ValueError(f"No gradients provided for any variable: {[str(var) for _, var in pairs]}.")
        with ops.init_scope():
            self._create_slots(trained)
        with ops.name_scope(name, self._name) as scope:
            self._prepare()
            updates = []
            for grad, var in pairs:
                if grad is None:
                    continue
                with ops.name_scope("update_" + var.op.name), ops.colocate_with(var):
                    updates.append(_update(self, grad, var))
            if global_step is None:
                train_op = self._finish(updates, scope)
            else:
                with ops.control_dependencies([self._finish(updates, "update")]):
                    train_op = _count(global_step, scope)
            if isinstance(train_op, Tensor):
                train_op = train_op.op
            listed = ops.get_collection_ref(GraphKeys.TRAIN_OP)
            if train_op not in listed:
                listed.append(train_op)
            return train_op

    @staticmethod
    def _as_gradient(grad):
        if grad is None:
            return None
        try:
            return ops.convert_to_tensor_or_indexed_slices(grad)
        except TypeError:
            raise TypeError(f"Gradient must be convertible to a Tensor or IndexedSlices, or None: {grad}") from None

    def get_slot(self, var, name):
        """The variable in the slot `name` of `var`, or `None`."""
        return self._slots.get(name, {}).get(_var_key(var))

    def get_slot_names(self):
        return sorted(self._slots)

    def variables(self):
        """The variables that the optimizer keeps in the default graph, by name."""
        graph = ops.get_default_graph()
        kept = list(self._non_slot_variables()) + [slot for slots in self._slots.values() for slot in slots.values()]
        return sorted((var for var in kept if var.op.graph is graph), key=lambda var: var.name)

    # ---- what classes define

    def _valid_dtypes(self):
        return {dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64}

    def _create_slots(self, var_list):
        """Makes the slots of these variables that do not exist."""

    def _prepare(self):
        """Makes the tensors that the updates share."""

    def _apply_dense(self, grad, var):
        raise NotImplementedError()

    def _resource_apply_dense(self, grad, handle):
        raise NotImplementedError()

    def _apply_sparse(self, grad, var):
        raise NotImplementedError()

    def _resource_apply_sparse(self, grad, handle, indices):
        raise NotImplementedError()

    def _apply_sparse_duplicate_indices(self, grad, var):
        """Applies slices in which a row may come several times: here, after adding these up."""
        values, indices = _deduplicate_indexed_slices(grad.values, grad.indices)
        return self._apply_sparse(IndexedSlices(values, indices, grad.dense_shape), var)

    def _resource_apply_sparse_duplicate_indices(self, grad, handle, indices):
        summed, unique = _deduplicate_indexed_slices(grad, indices)
        return self._resource_apply_sparse(summed, handle, unique)

    def _finish(self, update_ops, name_scope):
        """The operation that waits for all updates."""
        from tensorfleet.ops import control_flow

        return control_flow.group(*update_ops, name=name_scope)

    # ---- what classes use

    def _assert_valid_dtypes(self, tensors):
        valid = self._valid_dtypes()
        for tensor in tensors:
            dtype = tensor.dtype.base_dtype
            if dtype not in valid:
                raise ValueError(f"Invalid type {dtype!r} for {tensor.name}, expected: {list(valid)}.")

    def _call_if_callable(self, param):
        return param() if callable(param) and not isinstance(param, (Tensor, Variable)) else param

    def _slot_dict(self, slot_name):
        return self._slots.setdefault(slot_name, {})

    def _slot(self, var, slot_name, create):
        slots = self._slot_dict(slot_name)
        key = _var_key(var)
        if key not in slots:
            slots[key] = create()
        return slots[key]

    def _get_or_make_slot(self, var, val, slot_name, op_name):
        """The slot of `var`; it starts with `val`."""
        return self._slot(var, slot_name, lambda: slot_creator.create_slot(var, val, op_name))

    def _get_or_make_slot_with_initializer(self, var, initializer, shape, dtype, slot_name, op_name):
        return self._slot(var, slot_name, lambda: slot_creator.create_slot_with_initializer(var, initializer, shape, dtype, op_name))

    def _zeros_slot(self, var, slot_name, op_name):
        return self._slot(var, slot_name, lambda: slot_creator.create_zeros_slot(var, op_name))

    def _create_non_slot_variable(self, initial_value, name, colocate_with):
        """A variable of all that is trained; it stands where `colocate_with` does."""
        key = (name, colocate_with.graph)
        if key not in self._non_slot_dict:
            with ops.colocate_with(colocate_with):
                self._non_slot_dict[key] = Variable(
                    initial_value, name=name, trainable=False, use_resource=colocate_with._is_resource
                )
        return self._non_slot_dict[key]

    def _get_non_slot_variable(self, name, graph=None):
        return self._non_slot_dict.get((name, graph))

    def _non_slot_variables(self):
        return self._non_slot_dict.values()


def _count(global_step, name):
    """Increments the step counter."""
    from tensorfleet.framework import gen
    from tensorfleet.ops import state

    with ops.colocate_with(global_step):
        if isinstance(global_step, Variable) and global_step._is_resource:
            return gen.AssignAddVariableOp(global_step.handle, ops.convert_to_tensor(1, dtype=global_step.dtype), name=name)
        return state.assign_add(global_step, 1, name=name)
