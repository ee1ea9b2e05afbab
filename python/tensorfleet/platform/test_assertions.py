"""Assertions about arrays, sequences, texts and messages, for `tf.test.TestCase`."""

import contextlib
import itertools
import json
import os
import re
import tempfile
import unittest

import numpy as np


class Assertions(unittest.TestCase):
    """What `absl`'s and TensorFlow's test cases can assert beside Python's own."""

    # -- Arrays -------------------------------------------------------------------------------------------------------------------------------------

    def evaluate(self, tensors):
        raise NotImplementedError

    def _array(self, value):
        """A value, or the value of a tensor, as an array."""
        if not isinstance(value, (np.ndarray, np.generic)):
            if _is_tensor(value) or isinstance(value, (list, tuple)) and any(_is_tensor(item) for item in value):
                value = self.evaluate(value)
        return value if isinstance(value, np.ndarray) else np.array(value)

    def assertAllClose(self, a, b, rtol=1e-6, atol=1e-6, msg=None):
        """Two structures of arrays differ by at most `atol + rtol * |b|`."""
        self._close(a, b, rtol, atol, "a", "b", msg)

    def _close(self, a, b, rtol, atol, name_a, name_b, msg):
        if hasattr(a, "_asdict"):
            a = a._asdict()
        if hasattr(b, "_asdict"):
            b = b._asdict()
        if isinstance(a, dict) or isinstance(b, dict):
            if not isinstance(a, dict) or not isinstance(b, dict):
                raise ValueError("Can't compare dict to non-dict, %s vs %s. %s" % (name_a, name_b, msg or ""))
            self.assertCountEqual(a.keys(), b.keys(), msg="mismatched keys: %s has keys %s, but %s has keys %s. %s" % (name_a, a.keys(), name_b, b.keys(), msg or ""))
            for key in a:
                self._close(a[key], b[key], rtol, atol, "%s[%s]" % (name_a, key), "%s[%s]" % (name_b, key), msg)
            return
        if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and _holds_structures(a, b):
            self.assertEqual(len(a), len(b), msg="Mismatched length: %s has %d items, but %s has %d items. %s" % (name_a, len(a), name_b, len(b), msg or ""))
            for place, (left, right) in enumerate(zip(a, b)):
                self._close(left, right, rtol, atol, "%s[%d]" % (name_a, place), "%s[%d]" % (name_b, place), msg)
            return
        self._close_arrays(self._array(a), self._array(b), rtol, atol, "Mismatched value: %s is different from %s. %s" % (name_a, name_b, msg or ""))

    def _close_arrays(self, a, b, rtol, atol, msg):
        self.assertEqual(a.shape, b.shape, "Shape mismatch: expected %s, got %s. %s" % (a.shape, b.shape, msg))
        a, b = (value.astype(np.float32) if str(value.dtype) == "bfloat16" else value for value in (a, b))
        if np.allclose(a, b, rtol=rtol, atol=atol):
            return
        apart = np.abs(a - b) > atol + rtol * np.abs(b)
        apart = np.logical_or(apart, np.isnan(a) != np.isnan(b)) if a.dtype.kind in "fc" else apart
        where = np.where(apart) if a.ndim else ...
        lines = ["not close lhs = %s" % a[where], "not close rhs = %s" % b[where], "not close dif = %s" % np.abs(a - b)[where],
                 "not close tol = %s" % (atol + rtol * np.abs(b))[where], "dtype = %s, shape = %s" % (a.dtype, a.shape)]
        if a.ndim:
            lines.insert(0, "not close where = %s" % (where,))
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, err_msg=msg + "\n" + "\n".join(lines), equal_nan=True)

    def assertAllCloseAccordingToType(self, a, b, rtol=1e-6, atol=1e-6, float_rtol=1e-6, float_atol=1e-6, half_rtol=1e-3, half_atol=1e-3,
                                      bfloat16_rtol=1e-2, bfloat16_atol=1e-2, msg=None):
        """`assertAllClose` with a tolerance for the coarser of the two types."""
        a, b = self._array(a), self._array(b)
        kinds = {str(a.dtype), str(b.dtype)}
        for names, one, other in ((("float32", "complex64"), float_rtol, float_atol), (("float16",), half_rtol, half_atol), (("bfloat16",), bfloat16_rtol, bfloat16_atol)):
            if kinds & set(names):
                rtol, atol = max(rtol, one), max(atol, other)
        self.assertAllClose(a, b, rtol, atol, msg)

    def assertNotAllClose(self, a, b, **kwargs):
        """Two arrays are not close."""
        try:
            self.assertAllClose(a, b, **kwargs)
        except AssertionError:
            return
        raise AssertionError("The two values are close at all elements")

    def assertAllEqual(self, a, b, msg=None):
        """Two arrays are equal, not-a-number included."""
        a, b = self._array(a), self._array(b)
        self.assertEqual(a.shape, b.shape, "Shape mismatch: expected %s, got %s. Contents: %s. \n%s." % (a.shape, b.shape, b, msg or ""))
        same = a == b
        if a.dtype.kind == "f" and b.dtype.kind == "f":
            same = np.logical_or(same, np.logical_and(np.isnan(a), np.isnan(b)))
        if np.all(same):
            return
        where = np.where(np.logical_not(same)) if a.ndim else ...
        lines = ["not equal lhs = %s" % a[where], "not equal rhs = %s" % b[where]]
        if a.ndim:
            lines.insert(0, "not equal where = %s" % (where,))
        np.testing.assert_array_equal(a, b, err_msg="%s\n%s" % (msg or "", "\n".join(lines)))

    def assertNotAllEqual(self, a, b, msg=None):
        """Two arrays differ somewhere."""
        try:
            self.assertAllEqual(a, b)
        except AssertionError:
            return
        raise AssertionError("The two values are equal at all elements. %s" % (msg or ""))

    def assertAllGreater(self, a, comparison_target):
        """Every element is greater."""
        self.assertGreater(np.min(self._array(a)), comparison_target)

    def assertAllLess(self, a, comparison_target):
        """Every element is less."""
        self.assertLess(np.max(self._array(a)), comparison_target)

    def assertAllGreaterEqual(self, a, comparison_target):
        """Every element is greater or equal."""
        self.assertGreaterEqual(np.min(self._array(a)), comparison_target)

    def assertAllLessEqual(self, a, comparison_target):
        """Every element is less or equal."""
        self.assertLessEqual(np.max(self._array(a)), comparison_target)

    def assertAllInRange(self, target, lower_bound, upper_bound, open_lower_bound=False, open_upper_bound=False):
        """Every element lies between two bounds."""
        target = self._array(target)
        if not np.issubdtype(target.dtype, np.floating) and not np.issubdtype(target.dtype, np.integer):
            raise AssertionError("The value of %s does not have an ordered numeric type, instead it has type: %s" % (target, target.dtype))
        nans = np.where(np.isnan(target))
        if np.size(nans):
            raise AssertionError("%d of the %d element(s) are NaN. Subscripts(s) and value(s) of the NaN element(s):\n%s" % (len(nans[0]), np.size(target), _listed(nans, target)))
        brackets = "%s%s, %s%s" % ("(" if open_lower_bound else "[", lower_bound, upper_bound, ")" if open_upper_bound else "]")
        below = target <= lower_bound if open_lower_bound else target < lower_bound
        above = target >= upper_bound if open_upper_bound else target > upper_bound
        outside = np.where(np.logical_or(below, above))
        if np.size(outside):
            raise AssertionError("%d of the %d element(s) are outside the range %s. Subscript(s) and value(s) of the offending elements:\n%s" % (
                len(outside[0]), np.size(target), brackets, _listed(outside, target)))

    def assertAllInSet(self, target, expected_set):
        """Every element is one of a set."""
        target = self._array(target)
        odd = np.setdiff1d(target.flatten(), list(expected_set))
        if np.size(odd):
            raise AssertionError("%d unique element(s) are not in the set %s: %s" % (np.size(odd), expected_set, odd))

    def assertDTypeEqual(self, target, expected_dtype):
        """The elements have a type."""
        target = self._array(target)
        if not isinstance(target, list):
            self.assertEqual(target.dtype, getattr(expected_dtype, "as_numpy_dtype", expected_dtype)) if not isinstance(expected_dtype, str) else self.assertTrue(
                target.dtype == expected_dtype, "%r != %r" % (target.dtype, expected_dtype))

    def assertNear(self, f1, f2, err, msg=None):
        """Two numbers differ by at most `err`."""
        self.assertTrue(f1 == f2 or abs(f1 - f2) <= err, "%f != %f +/- %f%s" % (f1, f2, err, " (%s)" % msg if msg is not None else ""))

    def assertArrayNear(self, farray1, farray2, err, msg=None):
        """Two lists of numbers differ by at most `err` at each place."""
        self.assertEqual(len(farray1), len(farray2), msg=msg)
        for one, other in zip(farray1, farray2):
            self.assertNear(float(one), float(other), err, msg=msg)

    def assertNDArrayNear(self, ndarray1, ndarray2, err, msg=None):
        """The distance of two arrays is less than `err`."""
        self.assertTrue(np.linalg.norm(np.asarray(ndarray1) - np.asarray(ndarray2)) < err, msg=msg)

    def assertShapeEqual(self, np_array, tf_tensor, msg=None):
        """An array and a tensor have one shape."""
        if not isinstance(np_array, (np.ndarray, np.generic)):
            raise TypeError("np_array must be a Numpy ndarray or Numpy scalar")
        if not _is_tensor(tf_tensor):
            raise TypeError("tf_tensor must be a Tensor")
        self.assertAllEqual(np_array.shape, tf_tensor.get_shape().as_list(), msg=msg)

    # -- Messages and errors ------------------------------------------------------------------------------------------------------------------------

    def assertProtoEquals(self, expected_message_maybe_ascii, message, msg=None):
        """Two messages are equal; the expected one may be text."""
        from tensorfleet.protobuf import text_format

        expected = expected_message_maybe_ascii
        if isinstance(expected, (str, bytes)):
            expected = text_format.Merge(expected, type(message)())
        elif not isinstance(expected, type(message)):
            self.fail("Can't compare protos of type %s and %s. %s" % (type(expected), type(message), msg or ""))
        self.assertMultiLineEqual(str(expected), str(message), msg)

    def assertProtoEqualsVersion(self, expected, actual, producer=134, min_consumer=0, msg=None):
        """A graph is equal to a text with the versions of this TensorFlow."""
        self.assertProtoEquals("versions { producer: %d min_consumer: %d };\n%s" % (producer, min_consumer, expected), actual, msg=msg)

    @contextlib.contextmanager
    def assertRaisesWithPredicateMatch(self, exception_type, expected_err_re_or_predicate):
        """The block raises an exception whose text matches, or for which a function is true."""
        try:
            yield
            self.fail(exception_type.__name__ + " not raised")
        except Exception as error:
            matches = expected_err_re_or_predicate
            if not callable(matches):
                def matches(caught):
                    text = getattr(caught, "message", None) or str(caught)
                    return re.search(expected_err_re_or_predicate, text)
            if not isinstance(error, exception_type) or not matches(error):
                raise AssertionError("Exception of type %s: %s" % (type(error), error)) from error

    def assertRaisesOpError(self, expected_err_re_or_predicate):
        """The block raises a `tf.errors.OpError` that matches."""
        from tensorfleet.framework import errors

        return self.assertRaisesWithPredicateMatch(errors.OpError, expected_err_re_or_predicate)

    @contextlib.contextmanager
    def assertRaisesWithLiteralMatch(self, expected_exception, expected_exception_message, callable_obj=None, *args, **kwargs):
        """The block raises an exception with exactly this text."""
        try:
            yield
        except expected_exception as error:
            self.assertEqual(expected_exception_message, str(error))
        else:
            self.fail("%s not raised" % expected_exception.__name__)

    def assertDeviceEqual(self, device1, device2, msg=None):
        """Two device names mean one device."""
        from tensorfleet.framework import device

        one, other = (device.canonical_name(name) if hasattr(device, "canonical_name") else name for name in (device1, device2))
        self.assertEqual(one, other, "Devices %s and %s are not equal. %s" % (one, other, msg or ""))

    # -- Sequences and texts ------------------------------------------------------------------------------------------------------------------------

    def assertStartsWith(self, actual, expected_start, msg=None):
        if not actual.startswith(expected_start):
            self.fail("%r does not start with %r%s" % (actual, expected_start, ": %s" % msg if msg else ""))

    def assertNotStartsWith(self, actual, unexpected_start, msg=None):
        if actual.startswith(unexpected_start):
            self.fail("%r does start with %r%s" % (actual, unexpected_start, ": %s" % msg if msg else ""))

    def assertEndsWith(self, actual, expected_end, msg=None):
        if not actual.endswith(expected_end):
            self.fail("%r does not end with %r%s" % (actual, expected_end, ": %s" % msg if msg else ""))

    def assertNotEndsWith(self, actual, unexpected_end, msg=None):
        if actual.endswith(unexpected_end):
            self.fail("%r does end with %r%s" % (actual, unexpected_end, ": %s" % msg if msg else ""))

    def assertLen(self, container, expected_len, msg=None):
        if len(container) != expected_len:
            self.fail("%s has length of %d, expected %d.%s" % (unittest.util.safe_repr(container), len(container), expected_len, " " + msg if msg else ""), )

    def assertEmpty(self, container, msg=None):
        if len(container):
            self.fail("%r has length of %d.%s" % (container, len(container), " " + msg if msg else ""))

    def assertNotEmpty(self, container, msg=None):
        if not len(container):
            self.fail("%r has length of 0.%s" % (container, " " + msg if msg else ""))

    def assertBetween(self, value, minv, maxv, msg=None):
        if not minv <= value <= maxv:
            self.fail("%r unexpectedly not between %r and %r%s" % (value, minv, maxv, ": " + msg if msg else ""))

    def assertContainsSubset(self, expected_subset, actual_set, msg=None):
        absent = set(expected_subset) - set(actual_set)
        if absent:
            self.fail("Missing elements %s\nExpected: %s\nActual: %s%s" % (absent, expected_subset, actual_set, "\n" + msg if msg else ""))

    def assertNoCommonElements(self, expected_seq, actual_seq, msg=None):
        common = set(expected_seq) & set(actual_seq)
        if common:
            self.fail("Common elements %s\nExpected: %s\nActual: %s%s" % (common, expected_seq, actual_seq, "\n" + msg if msg else ""))

    def assertItemsEqual(self, first, second, msg=None):
        self.assertCountEqual(first, second, msg)

    def assertSameElements(self, expected_seq, actual_seq, msg=None):
        self.assertSetEqual(set(expected_seq), set(actual_seq), msg)

    def assertSequenceAlmostEqual(self, expected_seq, actual_seq, places=None, msg=None, delta=None):
        self.assertEqual(len(expected_seq), len(actual_seq), msg)
        for one, other in zip(expected_seq, actual_seq):
            self.assertAlmostEqual(one, other, places=places, msg=msg, delta=delta)

    def assertSequenceStartsWith(self, prefix, whole, msg=None):
        prefix = [prefix] if isinstance(prefix, (int, float)) else prefix
        self.assertEqual(list(prefix), list(whole[:len(prefix)]), msg)

    def assertContainsSubsequence(self, container, subsequence, msg=None):
        rest = iter(container)
        if not all(item in rest for item in subsequence):
            self.fail("%s not a subsequence of %s. %s" % (subsequence, container, msg or ""))

    def assertContainsExactSubsequence(self, container, subsequence, msg=None):
        container, subsequence = list(container), list(subsequence)
        places = range(len(container) - len(subsequence) + 1)
        if not any(container[place:place + len(subsequence)] == subsequence for place in places):
            self.fail("%s not an exact subsequence of %s. %s" % (subsequence, container, msg or ""))

    def assertContainsInOrder(self, strings, target, msg=""):
        position = 0
        for string in [strings] if isinstance(strings, (str, bytes)) else strings:
            found = target.find(string, position)
            if found == -1:
                self.fail('Did not find "%s" after "%s". %s' % (string, target[:position], msg or ""))
            position = found + len(string)

    def assertRegexMatch(self, actual_str, regexes, message=None):
        if not any(re.search(regex, actual_str) for regex in regexes):
            self.fail(message or '"%s" does not contain "%s"' % (actual_str, '" or "'.join(regexes)))

    def assertTotallyOrdered(self, *groups, **kwargs):
        flat = [(place, item) for place, group in enumerate(groups) for item in group]
        for (place, one), (other_place, other) in itertools.combinations(flat, 2):
            if place == other_place:
                self.assertEqual(one, other, kwargs.get("msg"))
            else:
                self.assertLess(one, other, kwargs.get("msg"))

    def assertSameStructure(self, a, b, aname="a", bname="b", msg=None):
        if a != b:
            self.fail("%s and %s differ: %r, %r%s" % (aname, bname, a, b, " " + msg if msg else ""))

    def assertUrlEqual(self, a, b, msg=None):
        from urllib import parse

        one, other = parse.urlparse(a), parse.urlparse(b)
        self.assertEqual(one[:4] + one[5:], other[:4] + other[5:], msg)
        self.assertEqual(sorted(parse.parse_qsl(one.query)), sorted(parse.parse_qsl(other.query)), msg)

    def assertJsonEqual(self, first, second, msg=None):
        self.assertEqual(json.loads(first), json.loads(second), msg)

    def create_tempdir(self, name=None, cleanup=None):
        """A new folder that is deleted after the test."""
        folder = tempfile.TemporaryDirectory(prefix=(name or self.id().rpartition(".")[2]) + ".")
        self.addCleanup(folder.cleanup)
        return _Folder(folder.name)

    def create_tempfile(self, file_path=None, content=None, mode="w", encoding="utf8", errors="strict", cleanup=None):
        """A new file that is deleted after the test."""
        return self.create_tempdir().create_file(file_path, content, mode, encoding, errors)

    def enter_context(self, manager):
        """Enters a context that is left after the test."""
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        return stack.enter_context(manager)


class _Folder:
    def __init__(self, path):
        self.full_path = path

    def __fspath__(self):
        return self.full_path

    def create_file(self, file_path=None, content=None, mode="w", encoding="utf8", errors="strict"):
        path = os.path.join(self.full_path, file_path or "file")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, mode if content is None or isinstance(content, str) else "wb", encoding=encoding if isinstance(content, str) else None) as file:
            file.write(content if content is not None else "")
        return _Folder(path)


def _is_tensor(value):
    return type(value).__module__.startswith("tensorfleet.") and (hasattr(value, "get_shape") or hasattr(value, "dense_shape")) and not isinstance(value, tuple)


def _holds_structures(*lists):
    """Whether lists hold more than numbers, so that they are compared item by item."""
    for values in lists:
        try:
            if np.array(values).dtype == object:
                return True
        except ValueError:
            return True
        if any(isinstance(value, dict) or hasattr(value, "_asdict") for value in values):
            return True
    return False


def _listed(where, values, limit=10):
    lines = ["  [%s] : %s" % (", ".join(str(axis[place]) for axis in where), values[tuple(axis[place] for axis in where)]) for place in range(min(len(where[0]), limit))]
    return "\n".join(lines + ["..."] * (len(where[0]) > limit))
