"""`tf.nest`: nested structures."""

import collections
import unittest

from tensorfleet.platform import nest

Point = collections.namedtuple("Point", "x y")


class Nest(unittest.TestCase):
    structure = {"b": [1, (2, Point(3, 4))], "a": collections.OrderedDict([("z", 5), ("c", 6)])}

    def test_dictionaries_count_by_key(self):
        self.assertEqual(nest.flatten(self.structure), [6, 5, 1, 2, 3, 4])
        packed = nest.pack_sequence_as(self.structure, "abcdef"[:0] or list("abcdef"))
        self.assertEqual(packed, {"b": ["c", ("d", Point("e", "f"))], "a": collections.OrderedDict([("z", "b"), ("c", "a")])})

    def test_single_values(self):
        for value in ("text", b"bytes", None, {1, 2}, 3):
            self.assertEqual(nest.flatten(value), [value])

    def test_mapping(self):
        self.assertEqual(nest.map_structure(lambda a, b: a + b, {"x": [1, 2]}, {"x": [10, 20]}), {"x": [11, 22]})
        with self.assertRaisesRegex(ValueError, "don't have the same number of elements"):
            nest.map_structure(lambda a, b: a, [1, 2], [1])
        with self.assertRaisesRegex(TypeError, "same sequence type"):
            nest.assert_same_structure([1], (1,))
        nest.assert_same_structure([1], (1,), check_types=False)

    def test_paths(self):
        self.assertEqual(nest.flatten_with_joined_string_paths(self.structure)[-1], ("b/1/1/y", 4))

    def test_down_to_a_depth(self):
        self.assertEqual(nest.flatten_up_to([0, [0]], [[1], [[2]]]), [[1], [2]])
        with self.assertRaisesRegex(ValueError, "same sequence length"):
            nest.flatten_up_to([0, 0], [1])

    def test_wrong_counts(self):
        with self.assertRaisesRegex(ValueError, "Structure had 2 elements, but flat_sequence had 1 elements"):
            nest.pack_sequence_as([0, 0], [1])
        with self.assertRaisesRegex(ValueError, "Structure is a scalar but"):
            nest.pack_sequence_as(0, [1, 2])


if __name__ == "__main__":
    unittest.main()
