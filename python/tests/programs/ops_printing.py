"""Operations that print, and their nodes."""


def program(tf, check):
    x = tf.constant([1.0, 2.0, 3.0, 4.0])
    y = tf.Print(x, [x, tf.shape(x)], message="x: ", first_n=1, summarize=2)
    made = [tf.print("x is", x, "and", {"y": y}, summarize=-1), tf.print(x, output_stream="file:///dev/null"), tf.print([x, 1], sep="|", end="!", name="last")]
    check("names", [op.name for op in made])
    with tf.Session() as session:
        check("y", session.run(y))
