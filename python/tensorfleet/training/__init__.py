"""Optimizers, savers, supervision: what tf.train offers."""
