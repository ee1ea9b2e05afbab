"""Functions that carry a state along a dataset: `Dataset.reduce` and `scan`."""

from tensorfleet.framework import gen, ops
from tensorfleet.framework.type_spec import TensorSpec
from tensorfleet.input import structure
from tensorfleet.input.dataset import Dataset, Traced


def _stateful(func, name, state_spec, element_spec, has_output):
    """Traces a function of state and element until the state's shapes stay as they are."""
    while True:

        def with_two(state, element):
            return func(state, element)

        with_two.__name__ = getattr(func, "__name__", type(func).__name__)
        traced = Traced(with_two, name, (state_spec, element_spec))
        given = traced.output_spec
        if has_output:
            if not isinstance(given, tuple) or len(given) != 2:
                raise TypeError("The scan function must return a pair comprising the new state and the output value.")
            given = given[0]
        flat, new = structure.flatten(state_spec), structure.flatten(given)
        if [one.dtype for one in flat] != [one.dtype for one in new]:
            raise TypeError(
                f"The element types for the new state must match the initial state. Expected {structure.legacy_types(state_spec)}; got "
                f"{structure.legacy_types(given)}."
            )
        wider = [TensorSpec(one.shape.most_specific_compatible_shape(other.shape), one.dtype) for one, other in zip(flat, new)]
        if all(str(one.shape) == str(other.shape) for one, other in zip(flat, wider)):
            return traced, state_spec
        state_spec = structure.pack(state_spec, wider)


def _initial(initial_state):
    state = structure.normalize_element(initial_state)
    return state, structure.specs_of(state)


def reduce(dataset, initial_state, reduce_func):
    """What a function makes of all elements."""
    with ops.name_scope("initial_state"):
        state, spec = _initial(initial_state)
    traced, spec = _stateful(reduce_func, "reduce()", spec, dataset.element_spec, False)
    flat = gen.ReduceDataset(
        dataset._variant_tensor,
        structure.to_tensor_list(spec, state),
        traced.captured,
        f=traced.defined,
        output_types=structure.flat_types(spec),
        output_shapes=structure.flat_shapes(spec),
    )
    return structure.from_tensor_list(spec, flat)


def scan(dataset, initial_state, scan_func):
    """What a function gives for each element and the state before it."""
    state, spec = _initial(initial_state)
    traced, spec = _stateful(scan_func, "tf.data.experimental.scan()", spec, dataset.element_spec, True)
    output = traced.output_spec[1]
    variant = gen.ScanDataset(
        dataset._variant_tensor,
        structure.to_tensor_list(spec, state),
        traced.captured,
        f=traced.defined,
        preserve_cardinality=True,
        output_types=structure.flat_types(output),
        output_shapes=structure.flat_shapes(output),
    )
    return Dataset._of(variant, output, [dataset])
