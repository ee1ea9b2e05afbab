"""`tf.make_template`: a function whose variables are made by its first call and shared by the others."""

import functools

from tensorfleet.framework import ops
from tensorfleet.framework.export import export
from tensorfleet.framework.keys import GraphKeys
from tensorfleet.ops import variable_scope


@export("make_template")
def make_template(name_, func_, create_scope_now_=False, unique_name_=None, custom_getter_=None, **kwargs):
    """`func_` with a variable scope of its own."""
    if kwargs:
        func_ = functools.partial(func_, **kwargs)
    return Template(name_, func_, create_scope_now_, unique_name_, custom_getter_)


class Template:
    """What `make_template` gives."""

    def __init__(self, name, func, create_scope_now=False, unique_name=None, custom_getter=None):
        if not name:
            raise ValueError("name cannot be None.")
        self._func = func
        self._name = name
        self._unique_name = unique_name
        self._custom_getter = custom_getter
        self._variables_created = False
        self._variable_scope = None
        if create_scope_now:
            with variable_scope.variable_scope(unique_name, name, custom_getter=custom_getter) as scope:
                self._variable_scope = scope

    def __call__(self, *args, **kwargs):
        if self._variable_scope is not None:
            reuse = self._variables_created
            with variable_scope.variable_scope(self._variable_scope, reuse=reuse):
                return self._call(args, kwargs)
        with variable_scope.variable_scope(self._unique_name, self._name, custom_getter=self._custom_getter) as scope:
            self._variable_scope = scope
            return self._call(args, kwargs)

    def _call(self, args, kwargs):
        before = len(ops.get_collection_ref(GraphKeys.GLOBAL_VARIABLES))
        trainable_before = len(ops.get_collection_ref(GraphKeys.TRAINABLE_VARIABLES))
        result = self._func(*args, **kwargs)
        if self._variables_created:
            if len(ops.get_collection_ref(GraphKeys.TRAINABLE_VARIABLES)) != trainable_before:
                raise ValueError(
                    "Trainable variable created when calling a template after the first time, perhaps you used tf.Variable "
                    f"when you meant tf.get_variable: {ops.get_collection_ref(GraphKeys.TRAINABLE_VARIABLES)[trainable_before:]}"
                )
        elif len(ops.get_collection_ref(GraphKeys.GLOBAL_VARIABLES)) != before or self._variable_scope is not None:
            self._variables_created = True
        return result

    @property
    def name(self):
        return self._name

    @property
    def func(self):
        return self._func

    @property
    def variable_scope(self):
        return self._variable_scope

    @property
    def variable_scope_name(self):
        if self._variable_scope is None:
            return None
        name = self._variable_scope.name
        return name if not name or name.endswith("/") else name + "/"

    def _collected(self, key):
        return [] if self._variable_scope is None else ops.get_collection(key, self.variable_scope_name)

    @property
    def global_variables(self):
        return self._collected(GraphKeys.GLOBAL_VARIABLES)

    @property
    def local_variables(self):
        return self._collected(GraphKeys.LOCAL_VARIABLES)

    @property
    def trainable_variables(self):
        return self._collected(GraphKeys.TRAINABLE_VARIABLES)

    @property
    def variables(self):
        return self.global_variables + self.local_variables

    weights = variables
    trainable_weights = trainable_variables

    @property
    def non_trainable_variables(self):
        trainable = set(self.trainable_variables)
        return [variable for variable in self.variables if variable not in trainable]

    non_trainable_weights = non_trainable_variables
