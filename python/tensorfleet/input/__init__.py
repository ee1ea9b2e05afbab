"""Queues, readers, parsing and tf.data."""
