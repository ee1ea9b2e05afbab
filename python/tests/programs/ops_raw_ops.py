"""Every op by its declaration: keyword arguments, defaults, several outputs."""


def program(tf, check):
    a = tf.raw_ops.Placeholder(dtype=tf.float32, shape=[2, 2], name="a")
    b = tf.raw_ops.MatMul(a=a, b=a, transpose_b=True)
    c = tf.raw_ops.Sum(input=b, axis=[0])
    d = tf.raw_ops.TopKV2(input=a, k=1)
    e = tf.raw_ops.Split(axis=0, value=a, num_split=2)
    f = tf.raw_ops.Select(condition=a > 0.0, x=a, y=b)
    g = tf.raw_ops.ConcatV2(values=[a, b], axis=1, name="joined")
    h = tf.raw_ops.Squeeze(input=tf.raw_ops.ExpandDims(input=a, axis=0), axis=[0])
    i = tf.raw_ops.Conv2D(input=tf.ones([1, 3, 3, 1]), filter=tf.ones([2, 2, 1, 1]), strides=[1, 1, 1, 1], padding="VALID")
    j = tf.raw_ops.NoOp(name="nothing")
    check("names", [b.name, c.name, d.values.name, [x.name for x in e], f.name, g.name, h.name, i.name, j.name])
    with tf.Session() as session:
        check("values", session.run([b, c, d, e, f, g, h, i], {a: [[1.0, -2.0], [3.0, 4.0]]}))
