"""Iterators: walks along datasets."""

import contextlib

from tensorfleet.framework import dtypes, function, gen, ops
from tensorfleet.framework.export import export
from tensorfleet.input import structure
from tensorfleet.platform import nest

GET_NEXT_CALL_WARNING_THRESHOLD = 32


def _flat(spec):
    return {"output_types": structure.flat_types(spec), "output_shapes": structure.flat_shapes(spec)}


@export("data.make_initializable_iterator")
def make_initializable_iterator(dataset, shared_name=None):
    """An iterator that an operation begins."""
    dataset = dataset._apply_options()
    spec = dataset.element_spec
    resource = gen.IteratorV2(container="", shared_name=shared_name or "", **_flat(spec))
    with ops.colocate_with(resource):
        initializer = gen.MakeIterator(dataset._variant_tensor, resource)
    return Iterator._of(resource, initializer, spec)


@export("data.make_one_shot_iterator")
def make_one_shot_iterator(dataset):
    """An iterator that begins by itself, once. Its dataset is a function of the graph."""

    def make():
        return dataset._apply_options()._variant_tensor

    try:
        factory = function.trace_by_value(make, "_make_dataset")
    except ValueError as error:
        if "Cannot capture a" in str(error):
            raise ValueError(
                "Failed to create a one-shot iterator for a dataset. `Dataset.make_one_shot_iterator()` does not support datasets that capture stateful "
                "objects, such as a `Variable` or `LookupTable`. In these cases, use `Dataset.make_initializable_iterator()`. "
                f"(Original error: {error})"
            ) from None
        raise
    spec = dataset.element_spec
    return Iterator._of(gen.OneShotIterator(dataset_factory=factory, **_flat(spec)), None, spec)




@export("data.Iterator")
class Iterator:
    """A walk along a dataset."""

    def __init__(self, iterator_resource, initializer, output_types, output_shapes, output_classes):
        spec = structure.convert_legacy_structure(output_types, output_shapes, output_classes)
        self._begin(iterator_resource, initializer, spec)

    def _begin(self, resource, initializer, spec):
        self._iterator_resource = resource
        self._initializer = initializer
        self._element_spec = spec
        self._string_handle = gen.IteratorToStringHandle(resource)
        self._get_next_call_count = 0
        ops.add_to_collection("iterators", resource)

    @classmethod
    def _of(cls, resource, initializer, spec):
        made = object.__new__(cls)
        made._begin(resource, initializer, spec)
        return made

    @staticmethod
    def from_structure(output_types, output_shapes=None, shared_name=None, output_classes=None):
        """An iterator that can walk along any dataset with such elements."""
        spec = structure.convert_legacy_structure(output_types, output_shapes, output_classes)
        with _on_cpu():
            resource = gen.IteratorV2(container="", shared_name=shared_name or "", **_flat(spec))
        return Iterator._of(resource, None, spec)

    @staticmethod
    def from_string_handle(string_handle, output_types, output_shapes=None, output_classes=None):
        """The iterator whose handle is fed."""
        spec = structure.convert_legacy_structure(output_types, output_shapes, output_classes)
        string_handle = ops.convert_to_tensor(string_handle, dtype=dtypes.string)
        with _on_cpu():
            resource = gen.IteratorFromStringHandleV2(string_handle, **_flat(spec))
        return Iterator._of(resource, None, spec)

    @property
    def initializer(self):
        if self._initializer is None:
            raise ValueError("Iterator does not have an initializer.")
        return self._initializer

    def make_initializer(self, dataset, name=None):
        """An operation that begins a walk along a dataset."""
        with ops.name_scope(name, "make_initializer") as name:
            self._check_fits(dataset.element_spec)
            with ops.colocate_with(self._iterator_resource):
                return gen.MakeIterator(dataset._variant_tensor, self._iterator_resource, name=name)

    def _check_fits(self, theirs):
        """Raises unless the elements of a dataset are such as this iterator gives."""
        ours = self._element_spec
        nest.assert_same_structure(structure.legacy_types(ours), structure.legacy_types(theirs))
        for one, other, what, of in (
            (structure.flatten(ours), structure.flatten(theirs), "types", structure.legacy_types),
            (structure.flatten(ours), structure.flatten(theirs), "shapes", structure.legacy_shapes),
        ):
            key = "dtype" if what == "types" else "shape"
            for a, b in zip(one, other):
                a, b = getattr(a, key, a), getattr(b, key, b)
                if not a.is_compatible_with(b) or what == "types" and a != b:
                    raise TypeError(f"Expected output {what} {of(ours)!r} but got dataset with output {what} {of(theirs)!r}.")

    def get_next(self, name=None):
        """The next element."""
        self._get_next_call_count += 1
        flat = gen.IteratorGetNext(self._iterator_resource, name=name, **_flat(self._element_spec))
        return structure.from_tensor_list(self._element_spec, flat)

    def string_handle(self, name=None):
        """What feeds an iterator `from_string_handle`."""
        return self._string_handle if name is None else gen.IteratorToStringHandle(self._iterator_resource, name=name)

    @property
    def output_types(self):
        return structure.legacy_types(self._element_spec)

    @property
    def output_shapes(self):
        return structure.legacy_shapes(self._element_spec)

    @property
    def output_classes(self):
        return structure.legacy_classes(self._element_spec)

    @property
    def element_spec(self):
        return self._element_spec


@contextlib.contextmanager
def _on_cpu():
    with ops.device("/cpu:0"):
        yield
