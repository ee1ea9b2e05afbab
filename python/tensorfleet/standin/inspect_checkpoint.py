"""`tensorflow.python.tools.inspect_checkpoint`: prints what a checkpoint holds."""

import re

import numpy as np


def print_tensors_in_checkpoint_file(file_name, tensor_name, all_tensors, all_tensor_names=False, count_exclude_pattern=""):
    """Prints the names, or also the values, of a checkpoint's tensors, or one tensor, or a list with types and shapes."""
    import tensorfleet as tf

    try:
        reader = tf.train.NewCheckpointReader(file_name)
        shapes = reader.get_variable_to_shape_map()
        if all_tensors or all_tensor_names:
            for key in sorted(shapes):
                print("tensor_name: ", key)
                if all_tensors:
                    print(reader.get_tensor(key))
        elif not tensor_name:
            text = reader.debug_string()
            print(text.decode("utf-8", errors="ignore") if isinstance(text, bytes) else text)
        else:
            print("tensor_name: ", tensor_name)
            print(reader.get_tensor(tensor_name))
        patterns = [pattern for pattern in count_exclude_pattern.split(",") if pattern]
        counted = [shape for key, shape in shapes.items() if not any(re.match(pattern, key) for pattern in patterns)]
        print("# Total number of params: %d" % sum(int(np.prod(shape)) for shape in counted))
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        print(str(error))
