"""Operators of tensors, with numbers and arrays on either side."""

import numpy as np


def program(tf, check):
    a = tf.constant([1.0, 2.0, 3.0])
    b = tf.constant([4, 5, 6])
    c = tf.constant([True, False, True])
    found = [("a+1", a + 1), ("1+a", 1 + a), ("a-1", a - 1), ("1-a", 1 - a), ("a*2", a * 2), ("2*a", 2 * a), ("a/2", a / 2), ("2/a", 2 / a)]
    found += [("a//2", a // 2), ("7//b", 7 // b), ("b%4", b % 4), ("7%b", 7 % b), ("a**2", a**2), ("2**a", 2**a), ("b/4", b / 4)]
    found += [("-a", -a), ("abs", abs(-a)), ("~c", ~c), ("c&", c & [True, True, False]), ("c|", c | [False, False, False])]
    found += [("c^", c ^ [True, True, True]), ("[]^c", [True, True, True] ^ c), ("a<2", a < 2), ("a<=2", a <= 2), ("a>2", a > 2), ("a>=2", a >= 2)]
    found += [("array", np.array([1.0, 1.0, 1.0], np.float32) + a), ("array 2", a * np.float32(2)), ("list", a + [1.0, 2.0, 3.0])]
    m = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    found += [("@", m @ m), ("@ list", m @ [[1.0], [2.0]]), ("list @", [[1.0, 2.0]] @ m)]
    check("names", [tensor.name for _, tensor in found])

    with tf.Session() as session:
        for name, tensor in found:
            check(name, session.run(tensor))
