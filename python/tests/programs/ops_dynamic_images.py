"""Images whose size a run tells."""

import numpy as np


def program(tf, check):
    x = tf.placeholder(tf.float32, [None, None, 3])
    found = [tf.image.central_crop(x, 0.5), tf.image.resize_image_with_crop_or_pad(x, 2, 6), tf.image.resize_images(x, [2, 2]), tf.image.flip_left_right(x)]
    check("shapes", [str(tensor.shape) for tensor in found])
    with tf.Session() as session:
        check("values", session.run(found, {x: np.arange(60).reshape(4, 5, 3)}))
