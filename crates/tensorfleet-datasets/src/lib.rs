//! Data to train on: MNIST embedded in the program, and files in its format.
