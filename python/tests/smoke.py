"""What a new installation must be able to do: run by `cargo xtask package` in fresh environments, with the wheel and nothing else.

Isolated from the sources (`python -I`): what is imported is what was installed.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile

import numpy as np


def installed():
    """Only numpy came with it, and the sources are not what is imported."""
    assert importlib.util.find_spec("tensorflow") is None, "there is a TensorFlow in an environment that should have none"
    import tensorfleet as tf

    assert "site-packages" in tf.__file__, tf.__file__
    assert tf.__version__ == "1.15.5", tf.__version__
    folder = os.path.dirname(tf.__file__)
    assert os.path.exists(os.path.join(folder, "py.typed")) and os.path.exists(os.path.join(folder, "__init__.pyi"))


def hello():
    """A greeting from a server of one's own."""
    import tensorfleet as tf

    server = tf.train.Server.create_local_server()
    with tf.Session(server.target) as session:
        greeting = session.run(tf.constant("Hello, distributed TensorFlow!"))
    assert greeting == b"Hello, distributed TensorFlow!", greeting


def line(directory):
    """A line is fitted, saved, and found again."""
    import tensorfleet as tf

    with tf.Graph().as_default():
        x, y = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32, [None])
        w, b = tf.Variable(0.0, name="w"), tf.Variable(0.0, name="b")
        loss = tf.reduce_mean(tf.square(x * w + b - y))
        train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
        saver = tf.train.Saver()
        feed = {x: np.array([0.0, 0.5, 1.0], np.float32), y: [0.2, 1.2, 2.2]}
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(200):
                session.run(train, feed)
            values = session.run([w, b])
            path = saver.save(session, os.path.join(directory, "model.ckpt"))
        np.testing.assert_allclose(values, [2.0, 0.2], atol=1e-3)
        with tf.Session() as session:
            saver.restore(session, path)
            np.testing.assert_array_equal(session.run([w, b]), values)


def script(directory):
    """A script that imports tensorflow runs unmodified."""
    path = os.path.join(directory, "old.py")
    with open(path, "w") as file:
        file.write("import sys\nimport tensorflow as tf\nprint(tf.Session().run(tf.add(1, 2)), sys.argv[1])\n")
    done = subprocess.run([sys.executable, "-m", "tensorfleet", path, "--flag"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "3 --flag\n", (done.returncode, done.stdout, done.stderr)


def main():
    """All of it."""
    with tempfile.TemporaryDirectory() as directory:
        installed()
        hello()
        line(directory)
        script(directory)
    print(f"Python {sys.version.split()[0]}, numpy {np.__version__}: works")


if __name__ == "__main__":
    main()
