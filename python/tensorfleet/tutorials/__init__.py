"""What TensorFlow has below `tensorflow.examples.tutorials`: the MNIST reader, and the model of its first tutorial."""
