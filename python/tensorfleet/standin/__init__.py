"""Standing in for TensorFlow: programs that say `import tensorflow` get this package, unmodified."""
