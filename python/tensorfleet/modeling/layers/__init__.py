"""`tf.layers`."""
