"""`tf.nest`: lists, tuples, named tuples, dictionaries and attrs classes inside each other, taken as flat lists and put together again.

Dictionaries count in the order of their sorted keys. Text, bytes, sets and arrays are single values."""

from collections import OrderedDict, defaultdict
from collections.abc import Mapping, MappingView, Sequence

from tensorfleet.framework.export import export

_COMPOSITE = {"SparseTensor": ("indices", "values", "dense_shape"), "IndexedSlices": ("values", "indices", "dense_shape")}


def _is_attrs(value):
    return getattr(type(value), "__attrs_attrs__", None) is not None


def _is_composite(value):
    return type(value).__name__ in _COMPOSITE and type(value).__module__.startswith("tensorfleet")


def _is_namedtuple(value):
    return isinstance(value, tuple) and hasattr(value, "_fields")


@export("nest.is_nested")
def is_nested(seq):
    """Whether a value has others inside."""
    if isinstance(seq, (str, bytes, bytearray)):
        return False
    return isinstance(seq, (list, tuple, Sequence, Mapping, MappingView)) or _is_attrs(seq)


is_sequence = is_nested


def is_sequence_or_composite(seq):
    """Whether a value has others inside, sparse tensors included."""
    return is_nested(seq) or _is_composite(seq)


def _nested(expand_composites):
    return is_sequence_or_composite if expand_composites else is_nested


def _items(structure):
    """The parts of a structure with the key of each, in order."""
    if isinstance(structure, Mapping):
        return [(key, structure[key]) for key in sorted(structure)]
    if _is_attrs(structure):
        return [(attribute.name, getattr(structure, attribute.name)) for attribute in type(structure).__attrs_attrs__]
    if _is_namedtuple(structure):
        return list(zip(structure._fields, structure))
    if _is_composite(structure):
        parts = ((name, getattr(structure, name)) for name in _COMPOSITE[type(structure).__name__])
        return [(name, part) for name, part in parts if part is not None]
    return list(enumerate(structure))


def _like(structure, parts):
    """A structure of the same type with other parts, which come in the order of `_items`."""
    parts = list(parts)
    if isinstance(structure, Mapping):
        by_key = dict(zip(sorted(structure), parts))
        ordered = [(key, by_key[key]) for key in structure]
        if isinstance(structure, defaultdict):
            return defaultdict(structure.default_factory, ordered)
        return type(structure)(ordered) if type(structure) in (dict, OrderedDict) else type(structure)(dict(ordered))
    if _is_composite(structure):
        return type(structure)(*parts)
    if _is_namedtuple(structure) or _is_attrs(structure):
        return type(structure)(*parts)
    if isinstance(structure, (MappingView, range)):
        return parts
    return type(structure)(parts)


def _walk(structure, nested, path=()):
    for key, value in _items(structure):
        if nested(value):
            yield from _walk(value, nested, path + (key,))
        else:
            yield path + (key,), value


@export("nest.flatten")
def flatten(structure, expand_composites=False):
    """The single values in a structure, in order. A single value gives a list of itself."""
    nested = _nested(expand_composites)
    if not nested(structure):
        return [structure]
    return [value for _, value in _walk(structure, nested)]


@export("nest.pack_sequence_as")
def pack_sequence_as(structure, flat_sequence, expand_composites=False):
    """A structure like the given one with the values of a flat list."""
    nested = _nested(expand_composites)
    if not nested(flat_sequence):
        raise TypeError("flat_sequence must be a sequence")
    if not nested(structure):
        if len(flat_sequence) != 1:
            raise ValueError("Structure is a scalar but len(flat_sequence) == %d > 1" % len(flat_sequence))
        return flat_sequence[0]
    values = list(flat_sequence)
    count = len(flatten(structure, expand_composites))
    if count != len(values):
        raise ValueError("Could not pack sequence. Structure had %d elements, but flat_sequence had %d elements.  Structure: %s, flat_sequence: %s." % (
            count, len(values), structure, flat_sequence))
    return _packed(structure, iter(values), nested)


def _packed(structure, values, nested):
    return _like(structure, [_packed(part, values, nested) if nested(part) else next(values) for _, part in _items(structure)])


def _described(value):
    return "type=%s str=%s" % (type(value).__name__, value)


def _same_type(one, other):
    if _is_namedtuple(one) and _is_namedtuple(other):
        return type(one).__name__ == type(other).__name__ and one._fields == other._fields
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return True
    if isinstance(one, list) and isinstance(other, list):
        return True
    return type(one) is type(other)


def _difference(one, other, check_types, nested):
    """The first difference of two structures, as an error's type and words, or None."""
    if nested(one) != nested(other):
        inner, outer = (one, other) if nested(one) else (other, one)
        return ValueError, 'Substructure "%s" is a sequence, while substructure "%s" is not' % (_described(inner), _described(outer))
    if not nested(one):
        return None
    if check_types and not _same_type(one, other):
        return TypeError, "The two namedtuples don't have the same sequence type. First structure %s has type %s, while second structure %s has type %s" % (
            _described(one), type(one).__name__, _described(other), type(other).__name__)
    if check_types and isinstance(one, Mapping) and isinstance(other, Mapping) and set(one) != set(other):
        return ValueError, "The two dictionaries don't have the same set of keys. First structure has keys %s, while second structure has keys %s" % (
            _described(list(one)), _described(list(other)))
    ours, theirs = _items(one), _items(other)
    if len(ours) != len(theirs):
        return ValueError, "The two structures don't have the same number of elements. First structure: %s. Second structure: %s" % (_described(one), _described(other))
    for (_, left), (_, right) in zip(ours, theirs):
        found = _difference(left, right, check_types, nested)
        if found is not None:
            return found
    return None


class _Dot:
    def __repr__(self):
        return "."


@export("nest.assert_same_structure")
def assert_same_structure(nest1, nest2, check_types=True, expand_composites=False):
    """Raises if two structures differ in anything but their single values."""
    found = _difference(nest1, nest2, check_types, _nested(expand_composites))
    if found is None:
        return
    kind, words = found
    dots = tuple(str(map_structure(lambda _: _Dot(), nest)) for nest in (nest1, nest2))
    raise kind("The two structures don't have the same nested structure.\n\nFirst structure: %s\n\nSecond structure: %s\n\nMore specifically: %s\n"
               "Entire first structure:\n%s\nEntire second structure:\n%s" % (_described(nest1), _described(nest2), words, *dots))


def _options(kwargs):
    check_types, expand_composites = kwargs.pop("check_types", True), kwargs.pop("expand_composites", False)
    if kwargs:
        raise ValueError("Only valid keyword arguments are `check_types` and `expand_composites`, not: `%s`" % "`, `".join(kwargs))
    return check_types, expand_composites


@export("nest.map_structure")
def map_structure(func, *structure, **kwargs):
    """The structure with `func` of each value, or of the values at the same place in several structures."""
    if not callable(func):
        raise TypeError("func must be callable, got: %s" % (func,))
    if not structure:
        raise ValueError("Must provide at least one structure")
    check_types, expand_composites = _options(kwargs)
    for other in structure[1:]:
        assert_same_structure(structure[0], other, check_types, expand_composites)
    flat = zip(*(flatten(one, expand_composites) for one in structure))
    return pack_sequence_as(structure[0], [func(*values) for values in flat], expand_composites)


def map_structure_with_tuple_paths(func, *structure, **kwargs):
    """`map_structure` with the path of each value, a tuple, as the first argument."""
    return map_structure_with_tuple_paths_up_to(structure[0], func, *structure, **kwargs)


def map_structure_with_paths(func, *structure, **kwargs):
    """`map_structure` with the path of each value, `a/0/b`, as the first argument."""
    return map_structure_with_tuple_paths(lambda path, *values, **options: func("/".join(str(part) for part in path), *values, **options), *structure, **kwargs)


def yield_flat_paths(nest, expand_composites=False):
    """The path of each value, in order."""
    nested = _nested(expand_composites)
    if not nested(nest):
        yield ()
    else:
        for path, _ in _walk(nest, nested):
            yield path


def flatten_with_tuple_paths(structure, expand_composites=False):
    """Pairs of path and value."""
    return list(zip(yield_flat_paths(structure, expand_composites), flatten(structure, expand_composites)))


def flatten_with_joined_string_paths(structure, separator="/", expand_composites=False):
    """Pairs of path, `a/0/b`, and value."""
    return [(separator.join(str(part) for part in path), value) for path, value in flatten_with_tuple_paths(structure, expand_composites)]


def flatten_dict_items(dictionary):
    """A dictionary whose nested keys and values are taken apart together."""
    if not isinstance(dictionary, Mapping):
        raise TypeError("input must be a dictionary")
    result = {}
    for keys, values in dictionary.items():
        if not is_nested(keys):
            pairs = [(keys, values)]
        else:
            flat_keys, flat_values = flatten(keys), flatten(values)
            if len(flat_keys) != len(flat_values):
                raise ValueError("Could not flatten dictionary. Key had %d elements, but value had %d elements. Key: %s, value: %s." % (
                    len(flat_keys), len(flat_values), keys, values))
            pairs = zip(flat_keys, flat_values)
        for key, value in pairs:
            if key in result:
                raise ValueError("Could not flatten dictionary: key %s is not unique." % (key,))
            result[key] = value
    return result


# -- Structures that stop earlier ---------------------------------------------------------------------------------------------------------------------


def assert_shallow_structure(shallow_tree, input_tree, check_types=True, expand_composites=False):
    """Raises unless the first structure is the upper part of the second."""
    nested = _nested(expand_composites)
    if not nested(shallow_tree):
        return
    if not nested(input_tree):
        raise TypeError("If shallow structure is a sequence, input must also be a sequence. Input has type: %s." % type(input_tree))
    if check_types and not _same_type(shallow_tree, input_tree):
        raise TypeError("The two structures don't have the same sequence type. Input structure has type %s, while shallow structure has type %s." % (
            type(input_tree), type(shallow_tree)))
    if isinstance(shallow_tree, Mapping):
        absent = sorted(set(shallow_tree) - set(input_tree))
        if absent:
            raise ValueError("The shallow_tree's keys are not a subset of the input_tree's keys. The shallow_tree has the following keys that are not in the input_tree: %s." % absent)
        pairs = [(shallow_tree[key], input_tree[key]) for key in shallow_tree]
    else:
        ours, theirs = _items(shallow_tree), _items(input_tree)
        if len(ours) != len(theirs):
            raise ValueError("The two structures don't have the same sequence length. Input structure has length %s, while shallow structure has length %s." % (
                len(theirs), len(ours)))
        pairs = [(left, right) for (_, left), (_, right) in zip(ours, theirs)]
    for left, right in pairs:
        assert_shallow_structure(left, right, check_types, expand_composites)


def _walk_up_to(shallow, tree, nested, path=()):
    if not nested(shallow):
        yield path, tree
        return
    inner = dict(_items(tree)) if isinstance(shallow, Mapping) else None
    theirs = _items(tree)
    for place, (key, part) in enumerate(_items(shallow)):
        yield from _walk_up_to(part, inner[key] if inner is not None else theirs[place][1], nested, path + (key,))


def flatten_with_tuple_paths_up_to(shallow_tree, input_tree, check_types=True, expand_composites=False):
    """Pairs of path and value, down to the depth of the first structure."""
    assert_shallow_structure(shallow_tree, input_tree, check_types, expand_composites)
    return list(_walk_up_to(shallow_tree, input_tree, _nested(expand_composites)))


def flatten_up_to(shallow_tree, input_tree, check_types=True, expand_composites=False):
    """The values down to the depth of the first structure."""
    return [value for _, value in flatten_with_tuple_paths_up_to(shallow_tree, input_tree, check_types, expand_composites)]


def map_structure_with_tuple_paths_up_to(shallow_tree, func, *inputs, **kwargs):
    """`map_structure_up_to` with the path of each value as the first argument."""
    if not inputs:
        raise ValueError("Cannot map over no sequences")
    check_types, expand_composites = kwargs.pop("check_types", True), kwargs.pop("expand_composites", False)
    flat = [flatten_with_tuple_paths_up_to(shallow_tree, tree, check_types, expand_composites) for tree in inputs]
    results = [func(group[0][0], *(value for _, value in group), **kwargs) for group in zip(*flat)]
    return pack_sequence_as(shallow_tree, results, expand_composites)


def map_structure_up_to(shallow_tree, func, *inputs, **kwargs):
    """`map_structure` down to the depth of the first structure."""
    return map_structure_with_tuple_paths_up_to(shallow_tree, lambda path, *values, **options: func(*values, **options), *inputs, **kwargs)


def get_traverse_shallow_structure(traverse_fn, structure, expand_composites=False):
    """The upper part of a structure where a function says to go on; False where it stops."""
    go_on = traverse_fn(structure)
    if not _nested(expand_composites)(structure):
        if not isinstance(go_on, bool):
            raise TypeError("traverse_fn returned structure: %s for non-structure: %s" % (go_on, structure))
        return go_on
    if isinstance(go_on, bool):
        if not go_on:
            return False
        return _like(structure, [get_traverse_shallow_structure(traverse_fn, part, expand_composites) for _, part in _items(structure)])
    assert_shallow_structure(go_on, structure, expand_composites=expand_composites)
    parts = []
    for (_, decision), (_, part) in zip(_items(go_on), _items(structure)):
        if not isinstance(decision, bool):
            raise TypeError("traverse_fn didn't return a depth=1 structure of bools. saw: %s for: %s" % (go_on, structure))
        parts.append(get_traverse_shallow_structure(traverse_fn, part, expand_composites) if decision else False)
    return _like(structure, parts)
