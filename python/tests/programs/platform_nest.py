"""Nested structures: flat lists and back, maps, paths, and the errors of structures that differ."""


def said(act):
    """What an act gives, or how it fails."""
    try:
        return act()
    except Exception as error:
        return "%s: %s" % (type(error).__name__, error)


def program(tf, check):
    import collections

    getattr(tf, "install_as_tensorflow", lambda quiet: None)(quiet=True)
    from tensorflow.python.util import nest

    point = collections.namedtuple("point", "x y")
    other = collections.namedtuple("point", "a b")
    structure = {"b": [1, (2, point(3, 4))], "a": collections.OrderedDict([("z", 5), ("c", 6)])}
    check("flat", nest.flatten(structure))
    check("packed", repr(nest.pack_sequence_as(structure, list("abcdef"))))
    check("mapped", repr(tf.nest.map_structure(lambda value: value * 2, structure)))
    check("paths", nest.flatten_with_joined_string_paths(structure))
    check("tuple paths", nest.flatten_with_tuple_paths(structure))
    pairs = [([1, 2], [1]), ([1, 2], (1, 2)), ([1, 2], 3), ({"a": 1}, {"b": 1}), ([1, [2]], [[1], 2]), (point(1, 2), (1, 2)), (point(1, 2), other(3, 4)),
             ({"a": [1]}, {"a": [1, 2]})]
    for number, (one, two) in enumerate(pairs):
        check("same %d" % number, said(lambda: tf.nest.assert_same_structure(one, two)))
        check("loosely %d" % number, said(lambda: tf.nest.assert_same_structure(one, two, check_types=False)))
    check("too few", said(lambda: nest.pack_sequence_as(structure, [1])))
    check("no list", said(lambda: nest.pack_sequence_as(structure, 3)))
    check("scalar", said(lambda: nest.pack_sequence_as(3, [1, 2])))
    check("no function", said(lambda: nest.map_structure(3, [1])))
    check("nothing", said(lambda: nest.map_structure(len)))
    check("option", said(lambda: nest.map_structure(len, [1], foo=3)))
    check("up to", nest.flatten_up_to([0, [0]], [[1], [[2]]]))
    for number, (shallow, deep) in enumerate([([0, 0], [1]), ([0, [0]], [1, 2]), ({"a": 0}, {"b": 1}), ([0], (1,))]):
        check("shallow %d" % number, said(lambda: nest.assert_shallow_structure(shallow, deep)))
    check("up to two", nest.map_structure_up_to([0, 0], lambda a, b: (a, b), [[1], 2], [3, 4]))
    check("kinds", [nest.is_nested(value) for value in ("abc", range(3), {1: 2}.keys(), set([1]), collections.deque([1]), None)])
    check("mixed keys", said(lambda: nest.flatten({1: 2, "a": 3})))
    check("items", nest.flatten_dict_items({(4, 5, (6, 8)): ("a", "b", ("c", "d"))}))
    check("default dictionary", repr(nest.pack_sequence_as(collections.defaultdict(int, {"x": 1, "a": 2}), [7, 8])))
    check("with paths", nest.map_structure_with_paths(lambda path, value: (path, value), {"a": [1, 2]}))
    check("traversed", nest.get_traverse_shallow_structure(lambda part: isinstance(part, list), [1, (2,)]))
