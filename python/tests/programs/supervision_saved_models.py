"""Saved models: written and loaded, with signatures."""

import os
import tempfile


def program(tf, check):
    directory = os.path.join(tempfile.mkdtemp(), "model")
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        w = tf.Variable([[1.0], [2.0]], name="w")
        y = tf.matmul(x, w, name="y")
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            tf.saved_model.simple_save(sess, directory, {"x": x}, {"y": y})
            try:
                tf.saved_model.simple_save(sess, directory, {"x": x}, {"y": y})
            except AssertionError as error:
                check("exists", str(error).replace(directory, "DIRECTORY"))
    check("files", sorted(os.listdir(directory)) + sorted(os.listdir(os.path.join(directory, "variables"))))
    check("is one", [tf.saved_model.maybe_saved_model_directory(directory), tf.saved_model.maybe_saved_model_directory("/")])
    with tf.Session() as sess:
        held = tf.saved_model.load(sess, [tf.saved_model.tag_constants.SERVING], directory)
        signature = held.signature_def[tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY]
        check("signature", [signature.method_name, signature.inputs["x"].name, signature.outputs["y"].name, str(signature.inputs["x"].tensor_shape)])
        check("value", sess.run(signature.outputs["y"].name, {signature.inputs["x"].name: [[1.0, 1.0]]}))
        try:
            tf.saved_model.load(sess, ["none"], directory)
        except RuntimeError as error:
            check("no tag", str(error)[:60])


DIFFERENCES = {"save/StringJoin/inputs_1": "a name made up for each saver"}
