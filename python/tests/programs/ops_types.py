"""Conversions between types, and complex numbers."""


def program(tf, check):
    i = tf.constant([-3, 0, 300])
    f = tf.constant([-1.5, 0.5, 300.7])
    found = [("float", tf.cast(i, tf.float32)), ("same", tf.cast(i, tf.int32)), ("int", tf.cast(f, tf.int32)), ("bool", tf.cast(i, tf.bool)), ("saturate", tf.saturate_cast(f, tf.uint8)), ("saturate int", tf.saturate_cast(i, tf.int8))]
    found += [("to_float", tf.to_float(i)), ("to_double", tf.to_double(f)), ("to_int32", tf.to_int32(f)), ("to_int64", tf.to_int64(f, name="long")), ("value", tf.cast(1.5, tf.int32)), ("bitcast", tf.bitcast(f, tf.int32)), ("as_string", tf.as_string(i))]
    c = tf.complex([1.0, -2.0], [3.0, 4.0])
    found += [("complex", c), ("real", tf.real(c)), ("imag", tf.imag(c)), ("abs", tf.abs(c)), ("conj", tf.conj(c)), ("angle", tf.angle(c)), ("real of real", tf.real(f)), ("imag of real", tf.imag(f)), ("to_complex", tf.to_complex64(f))]
    found += [("round", tf.round(f)), ("round int", tf.round(i)), ("div int", tf.div(i, 2)), ("truediv int", tf.truediv(i, 2)), ("floormod", tf.floormod(i, 7)), ("truncatediv", tf.truncatediv(i, 2)), ("truncatemod", tf.truncatemod(i, 2))]
    found += [("and", tf.bitwise.bitwise_and([5, 6], 3)), ("or", tf.bitwise.bitwise_or([5, 6], 3)), ("xor", tf.bitwise.bitwise_xor([5, 6], 3)), ("invert", tf.bitwise.invert([5])), ("left", tf.bitwise.left_shift([5], 2)), ("right", tf.bitwise.right_shift([5], 1))]
    found += [("logical", tf.logical_xor([True, False], [True, True])), ("not", tf.logical_not([True]))]

    with tf.Session() as session:
        for name, tensor in found:
            check(name, session.run(tensor))
