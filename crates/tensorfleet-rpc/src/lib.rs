//! gRPC as TensorFlow speaks it: a server and channels that move tensors without copying them.
