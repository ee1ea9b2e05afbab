"""`Variable`: reference and resource variables.

The library makes a variable's nodes; this class gives them TensorFlow's methods and puts the variable into collections.
"""

import enum

from tensorfleet import _native
from tensorfleet.framework import constant, conversion, dtypes, gen, ops
from tensorfleet.framework.export import export
from tensorfleet.framework.keys import GraphKeys
from tensorfleet.framework.tensor import Tensor
from tensorfleet.framework.tensor_shape import TensorShape


@export("VariableSynchronization")
class VariableSynchronization(enum.Enum):
    """How copies of a variable are kept alike by strategies of TensorFlow 2; one variable is kept here."""

    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3


@export("VariableAggregation")
class VariableAggregation(enum.Enum):
    """How updates of copies are put together by strategies of TensorFlow 2."""

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3


_resource_by_default = False


@export("enable_resource_variables")
def enable_resource_variables():
    """Makes variables resource variables unless a program says otherwise."""
    global _resource_by_default
    _resource_by_default = True


@export("disable_resource_variables")
def disable_resource_variables():
    """Makes variables reference variables unless a program says otherwise."""
    global _resource_by_default
    _resource_by_default = False


@export("resource_variables_enabled")
def resource_variables_enabled():
    return _resource_by_default


def _default_creator(**keywords):
    use_resource = keywords.pop("use_resource", None)
    if use_resource is None:
        from tensorfleet.ops import variable_scope

        use_resource = variable_scope.get_variable_scope().use_resource
    if use_resource is None:
        use_resource = _resource_by_default
    keywords.pop("expected_shape", None)
    made = object.__new__(ResourceVariable if use_resource else RefVariable)
    made._make(use_resource, **keywords)
    return made


class _VariableMeta(type):
    """`tf.Variable(...)` gives a reference or a resource variable, through the creators that a program has entered."""

    def __call__(cls, *args, **keywords):
        if cls is not Variable:
            if issubclass(cls, (RefVariable, ResourceVariable)) and cls.__init__ is Variable.__init__:
                arguments = _arguments(*args, **keywords)
                arguments.pop("use_resource", None)
                arguments.pop("expected_shape", None)
                made = object.__new__(cls)
                made._make(issubclass(cls, ResourceVariable), **arguments)
                return made
            return super().__call__(*args, **keywords)
        creator = _default_creator
        for wrapper in ops.get_default_graph().__dict__.get("_variable_creators", ()):
            creator = _wrapped(wrapper, creator)
        return creator(**_arguments(*args, **keywords))


def _wrapped(wrapper, inner):
    return lambda **keywords: wrapper(inner, **keywords)


def _arguments(
    initial_value=None,
    trainable=None,
    collections=None,
    validate_shape=True,
    caching_device=None,
    name=None,
    variable_def=None,
    dtype=None,
    expected_shape=None,
    import_scope=None,
    constraint=None,
    use_resource=None,
    synchronization=VariableSynchronization.AUTO,
    aggregation=VariableAggregation.NONE,
    shape=None,
):
    return dict(locals())


@export("variable_creator_scope")
class variable_creator_scope:
    """Lets a function `creator(next_creator, **kwargs)` make the variables built inside."""

    def __init__(self, variable_creator):
        self._creator = variable_creator

    def __enter__(self):
        self._graph = ops.get_default_graph()
        self._before = self._graph.__dict__.get("_variable_creators", ())
        self._graph._variable_creators = self._before + (self._creator,)

    def __exit__(self, *exception):
        self._graph._variable_creators = self._before
        return False


@export("Variable")
class Variable(metaclass=_VariableMeta):
    """A value that a task keeps between runs."""

    __array_priority__ = 100

    class SaveSliceInfo:
        """Which part of a larger variable a variable is."""

        def __init__(self, full_name=None, full_shape=None, var_offset=None, var_shape=None, save_slice_info_def=None, import_scope=None):
            if save_slice_info_def is not None:
                held = save_slice_info_def
                self.full_name = ops.prepend_name_scope(held.full_name, import_scope)
                self.full_shape, self.var_offset, self.var_shape = list(held.full_shape), list(held.var_offset), list(held.var_shape)
            else:
                self.full_name, self.full_shape, self.var_offset, self.var_shape = full_name, full_shape, var_offset, var_shape

        @property
        def spec(self):
            """The part as checkpoints write it."""
            whole = " ".join(str(dim) for dim in self.full_shape)
            parts = ":".join(f"{offset},{length}" for offset, length in zip(self.var_offset, self.var_shape))
            return f"{whole} {parts}"

        def to_proto(self, export_scope=None):
            from tensorfleet.protobuf import SaveSliceInfoDef

            return SaveSliceInfoDef(
                full_name=ops.strip_name_scope(self.full_name, export_scope),
                full_shape=self.full_shape,
                var_offset=self.var_offset,
                var_shape=self.var_shape,
            )

    def __init__(
        self,
        initial_value=None,
        trainable=None,
        collections=None,
        validate_shape=True,
        caching_device=None,
        name=None,
        variable_def=None,
        dtype=None,
        expected_shape=None,
        import_scope=None,
        constraint=None,
        use_resource=None,
        synchronization=VariableSynchronization.AUTO,
        aggregation=VariableAggregation.NONE,
        shape=None,
    ):
        """See the class; instances are made by the metaclass."""

    def _make(
        self,
        is_resource,
        initial_value=None,
        trainable=None,
        collections=None,
        validate_shape=True,
        caching_device=None,
        name=None,
        variable_def=None,
        dtype=None,
        import_scope=None,
        constraint=None,
        synchronization=VariableSynchronization.AUTO,
        aggregation=VariableAggregation.NONE,
        shape=None,
        save_slice_info=None,
    ):
        if variable_def is not None:
            if initial_value is not None:
                raise ValueError("variable_def and initial_value are mutually exclusive.")
            self._from_def(variable_def, import_scope)
            return
        if initial_value is None:
            raise ValueError("initial_value must be specified.")
        if collections is None:
            collections = [GraphKeys.GLOBAL_VARIABLES]
        if not isinstance(collections, (list, tuple, set)):
            raise ValueError(f"collections argument to Variable constructor must be a list, tuple, or set. Got {collections} of type {type(collections)}")
        if constraint is not None and not callable(constraint):
            raise ValueError("The `constraint` argument must be a callable.")
        if trainable is None:
            trainable = synchronization != VariableSynchronization.ON_READ
        if trainable and GraphKeys.TRAINABLE_VARIABLES not in collections:
            collections = list(collections) + [GraphKeys.TRAINABLE_VARIABLES]
        graph = ops.get_default_graph()
        graph._check_not_finalized()
        dtype = None if dtype is None else dtypes.as_dtype(dtype).base_dtype
        self._initialize(trainable, constraint, synchronization, aggregation)
        initial = self._initial(graph, initial_value, dtype)
        if not validate_shape and shape is None:
            any_shape = True
        else:
            any_shape = shape is not None and not TensorShape(shape).is_fully_defined()
        if validate_shape and not any_shape and not callable(initial) and isinstance(initial, int):
            known = graph._tensor(initial).shape
            if not known.is_fully_defined():
                raise ValueError(f"initial_value must have a shape specified: {graph._tensor(initial)}")
        if callable(caching_device):
            # A function such as that of `dynamic_rnn` gives the device of the scope: the copy is not bound to the variable.
            caching_device = ""
        slice_def = None if save_slice_info is None else save_slice_info.to_proto().SerializeToString()
        native = _native.Variable(
            graph._native,
            name or "Variable",
            initial,
            is_resource,
            trainable=bool(trainable),
            is_local=GraphKeys.LOCAL_VARIABLES in collections,
            any_shape=any_shape,
            caching_device=caching_device,
            slice_def=slice_def,
        )
        self._take(graph, native)
        graph._library_variables["local" if GraphKeys.LOCAL_VARIABLES in collections else "global"] += 1
        self._save_slice_info = save_slice_info
        graph.add_to_collections(list(collections), self)

    def _initialize(self, trainable, constraint=None, synchronization=VariableSynchronization.AUTO, aggregation=VariableAggregation.NONE):
        self._trainable = bool(trainable)
        self._constraint = constraint
        self._synchronization = synchronization
        self._aggregation = aggregation
        self._save_slice_info = None
        self._in_graph_mode = True
        self._update_uid = None

    def _initial(self, graph, initial_value, dtype):
        """The initial value as the library takes it: an output, an array, or a function."""
        if callable(initial_value):

            def build():
                return ops.convert_to_tensor(initial_value(), name="initial_value", dtype=dtype)._id

            return build
        if isinstance(initial_value, Tensor) or isinstance(initial_value, Variable):
            if isinstance(initial_value, Tensor) and initial_value.op._get_control_flow_context() is not None:
                raise ValueError(f"Initializer for variable is from inside a control-flow construct, such as a loop or conditional. When creating a variable inside a loop or conditional, use a lambda as the initializer.")
            return ops.convert_to_tensor(initial_value, dtype=dtype)._id
        if conversion._holds_tensors(initial_value) if isinstance(initial_value, (list, tuple)) else conversion._functions(type(initial_value)):
            return ops.convert_to_tensor(initial_value, name="initial_value", dtype=dtype)._id
        array, dtype = constant.to_array(initial_value, dtype)
        return array, dtype.as_datatype_enum

    def _take(self, graph, native):
        """Takes over the nodes that the library made."""
        handle, initial, initializer, read = native.parts()
        self._graph = graph
        self._variable_native = native
        self._is_resource = native.is_resource()
        self._handle_tensor = graph._tensor(handle)
        self._initial_value = graph._tensor(initial)
        self._initializer_op = graph._operation(initializer)
        self._snapshot = graph._tensor(read)
        self._dtype = dtypes.DType(native.dtype()) if self._is_resource else self._handle_tensor.dtype
        self._unique_id = self._handle_tensor.op.name
        graph._variable_objects[self._handle_tensor._id] = self

    def _from_def(self, variable_def, import_scope):
        graph = ops.get_default_graph()
        self._initialize(variable_def.trainable)
        renamed = type(variable_def)()
        renamed.CopyFrom(variable_def)
        for field in ("variable_name", "initializer_name", "snapshot_name", "initial_value_name"):
            value = getattr(renamed, field)
            if value:
                setattr(renamed, field, ops.prepend_name_scope(value, import_scope))
        self._take(graph, _native.Variable.from_def(graph._native, renamed.SerializeToString()))
        if variable_def.HasField("save_slice_info_def"):
            self._save_slice_info = Variable.SaveSliceInfo(save_slice_info_def=variable_def.save_slice_info_def, import_scope=import_scope)

    @classmethod
    def _of(cls, graph, native, trainable):
        """A variable that the library made."""
        made = object.__new__(ResourceVariable if native.is_resource() else RefVariable)
        made._initialize(trainable)
        made._take(graph, native)
        return made

    # ---- what it is

    @property
    def name(self):
        return f"{self._handle_tensor.op.name}:0"

    @property
    def _shared_name(self):
        return self._handle_tensor.op.name

    @property
    def op(self):
        return self._handle_tensor.op

    @property
    def graph(self):
        return self._graph

    @property
    def dtype(self):
        return self._dtype

    @property
    def shape(self):
        if self._is_resource:
            return TensorShape(self._handle_tensor.op.get_attr("shape"))
        return self._handle_tensor.shape

    def get_shape(self):
        return self.shape

    @property
    def device(self):
        return self._handle_tensor.device

    @property
    def trainable(self):
        return self._trainable

    @property
    def synchronization(self):
        return self._synchronization

    @property
    def aggregation(self):
        return self._aggregation

    @property
    def constraint(self):
        return self._constraint

    @property
    def initializer(self):
        return self._initializer_op

    @property
    def create(self):
        return self._initializer_op

    @property
    def initial_value(self):
        return self._initial_value

    def _get_save_slice_info(self):
        return self._save_slice_info

    def _set_save_slice_info(self, save_slice_info):
        self._save_slice_info = save_slice_info

    def _as_graph_element(self):
        return self._snapshot if self._is_resource else self._handle_tensor

    def _ref(self):
        return self._handle_tensor

    @property
    def handle(self):
        if not self._is_resource:
            raise AttributeError("a reference variable has no handle")
        return self._handle_tensor

    def __repr__(self):
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self._dtype.name}>"

    def __hash__(self):
        return id(self)

    def __eq__(self, other):
        return self is other

    def __iter__(self):
        raise TypeError("'Variable' object is not iterable.")

    def to_proto(self, export_scope=None):
        """The variable as a `VariableDef`, without the scope before its names; `None` if it is not inside the scope."""
        from tensorfleet.protobuf import VariableDef

        if export_scope is not None and not self._handle_tensor.name.startswith(export_scope):
            return None
        made = VariableDef.FromString(self._variable_native.to_def())
        for field in ("variable_name", "initializer_name", "snapshot_name", "initial_value_name"):
            setattr(made, field, ops.strip_name_scope(getattr(made, field), export_scope))
        made.trainable = self._trainable
        made.synchronization = self._synchronization.value
        made.aggregation = self._aggregation.value
        if self._save_slice_info is not None:
            made.save_slice_info_def.MergeFrom(self._save_slice_info.to_proto(export_scope))
        return made

    @staticmethod
    def from_proto(variable_def, import_scope=None):
        made = object.__new__(ResourceVariable if variable_def.is_resource else RefVariable)
        made._from_def(variable_def, import_scope)
        return made

    # ---- its value

    def value(self):
        """The value: the read that was made with a reference variable, a new read of a resource variable."""
        if not self._is_resource:
            return self._snapshot
        graph = self._graph
        with graph._scope(graph._native.enter_anywhere), graph.device(self._handle_tensor.device):
            return self._read()

    def _read(self):
        value = gen.ReadVariableOp(self._handle_tensor, dtype=self._dtype)
        if value.graph is not self._graph:
            # A function sees an argument in place of the variable.
            value.set_shape(self.shape)
        return value

    def read_value(self):
        """A read that runs after the control dependencies around."""
        if not self._is_resource:
            return gen.Identity(self._handle_tensor, name="read")
        with ops.name_scope("Read"):
            value = self.value()
        return gen.Identity(value)

    def eval(self, session=None):
        return self._snapshot.eval(session=session)

    def initialized_value(self):
        """The value, initialised first if it is not."""
        from tensorfleet.ops import control_flow

        with ops.init_scope():
            return control_flow.cond(self.is_initialized(), self.read_value, lambda: self._initial_value)

    def is_initialized(self, name=None):
        if self._is_resource:
            return gen.VarIsInitializedOp(self._handle_tensor, name=name)
        return gen.IsVariableInitialized(self._handle_tensor, name=name)

    def load(self, value, session=None):
        """Sets the value in a session."""
        session = session or ops.get_default_session()
        if session is None:
            raise ValueError("Either session argument should be provided or default session should be established")
        session.run(self._initializer_op, {self._initializer_op.inputs[1]: value})

    def set_shape(self, shape):
        self._handle_tensor.set_shape(shape)
        self.value().set_shape(shape)

    # ---- updates

    def _after(self, op):
        """What an update of a resource variable gives: a read after it."""
        with ops.control_dependencies([op]):
            return _Updated(self, op, self._read())

    def _updated(self, ref_op, resource_op, value, use_locking, name, read_value):
        if self._is_resource:
            value = ops.convert_to_tensor(value, dtype=self._dtype)
            if ref_op == "Assign":
                self.shape.assert_is_compatible_with(value.shape)
            op = getattr(gen, resource_op)(self._handle_tensor, value, name=name)
            return self._after(op) if read_value else op
        update = getattr(gen, ref_op)(self._handle_tensor, value, use_locking=use_locking, name=name)
        return update if read_value else update.op

    def assign(self, value, use_locking=False, name=None, read_value=True):
        return self._updated("Assign", "AssignVariableOp", value, use_locking, name, read_value)

    def assign_add(self, delta, use_locking=False, name=None, read_value=True):
        return self._updated("AssignAdd", "AssignAddVariableOp", delta, use_locking, name, read_value)

    def assign_sub(self, delta, use_locking=False, name=None, read_value=True):
        return self._updated("AssignSub", "AssignSubVariableOp", delta, use_locking, name, read_value)

    def count_up_to(self, limit):
        from tensorfleet.ops import state

        return state.count_up_to(self, limit)

    def _scattered(self, kind, sparse_delta, use_locking, name):
        from tensorfleet.framework.composite import IndexedSlices

        if not isinstance(sparse_delta, IndexedSlices):
            raise ValueError(f"sparse_delta is not IndexedSlices: {sparse_delta}")
        from tensorfleet.ops import state

        return state.scatter(kind, self, sparse_delta.indices, sparse_delta.values, use_locking, name)

    def scatter_sub(self, sparse_delta, use_locking=False, name=None):
        return self._scattered("Sub", sparse_delta, use_locking, name)

    def scatter_add(self, sparse_delta, use_locking=False, name=None):
        return self._scattered("Add", sparse_delta, use_locking, name)

    def scatter_update(self, sparse_delta, use_locking=False, name=None):
        return self._scattered("Update", sparse_delta, use_locking, name)

    def scatter_nd_sub(self, indices, updates, name=None):
        from tensorfleet.ops import state

        return state.scatter_nd("Sub", self, indices, updates, True, name)

    def scatter_nd_add(self, indices, updates, name=None):
        from tensorfleet.ops import state

        return state.scatter_nd("Add", self, indices, updates, True, name)

    def scatter_nd_update(self, indices, updates, name=None):
        from tensorfleet.ops import state

        return state.scatter_nd("Update", self, indices, updates, True, name)

    def sparse_read(self, indices, name=None):
        """Some rows of a resource variable. `tf.gather` asks for it first, and reads a reference variable itself."""
        if not self._is_resource:
            raise AttributeError("sparse_read")
        with ops.name_scope("Gather" if name is None else name) as scope:
            value = gen.ResourceGather(self._handle_tensor, indices, dtype=self._dtype, name=scope)
        return gen.Identity(value)

    def gather_nd(self, indices, name=None):
        if self._is_resource:
            with ops.name_scope("GatherNd" if name is None else name) as scope:
                value = gen.ResourceGatherNd(self._handle_tensor, indices, dtype=self._dtype, name=scope)
            return gen.Identity(value)
        return gen.GatherNd(self, indices, name=name)

    def __getitem__(self, item):
        from tensorfleet.ops import operators

        return operators.slice_helper(self.value(), item, var=self)


def _operator(name):
    def work(self, *operands):
        return getattr(self.value(), name)(*operands)

    work.__name__ = name
    return work


class RefVariable(Variable):
    """A variable that ops get a reference to."""


class ResourceVariable(Variable):
    """A variable that ops get a handle of."""


class _Updated(ResourceVariable):
    """A resource variable after an update: reading it reads after the update, running it runs the update."""

    def __init__(self, variable, op, value):
        self.__dict__.update(variable.__dict__)
        self._parent_op = op
        self._updated_value = value

    @property
    def op(self):
        return self._parent_op

    def value(self):
        with ops.control_dependencies([self._parent_op]):
            return self._read()

    def read_value(self):
        return self.value()

    def eval(self, session=None):
        return self._updated_value.eval(session=session)

    def _as_graph_element(self):
        return self._updated_value

    def __repr__(self):
        return f"<tf.Variable 'UnreadVariable' shape={self.shape} dtype={self._dtype.name}>"


_Updated.__new__ = lambda cls, *args: object.__new__(cls)
for _name in Tensor.OVERLOADABLE_OPERATORS - {"__getitem__", "__eq__", "__ne__"}:
    if hasattr(Tensor, _name):
        setattr(Variable, _name, _operator(_name))


def _as_tensor(value, dtype=None, name=None, as_ref=False):
    if dtype is not None and not dtype.is_compatible_with(value.dtype):
        raise ValueError(f"Incompatible type conversion requested to type '{dtype.name}' for variable of type '{value.dtype.name}'")
    if as_ref and not value._is_resource:
        return value._ref()
    if as_ref:
        return value.handle if not isinstance(value, _Updated) else value.handle
    return value.value()


conversion.register_tensor_conversion_function(Variable, _as_tensor, 99)
