"""Prints what a checkpoint holds, as `tensorflow.python.tools.inspect_checkpoint` does."""

from tensorfleet.training.checkpoint_utils import NewCheckpointReader


def print_tensors_in_checkpoint_file(file_name, tensor_name, all_tensors, all_tensor_names=False, count_exclude_pattern=""):
    """Prints the names and values of all tensors, of one, or a list of names, dtypes and shapes."""
    reader = NewCheckpointReader(file_name)
    if all_tensors or all_tensor_names:
        for key in sorted(reader.get_variable_to_shape_map()):
            print("tensor_name: ", key)
            if all_tensors:
                print(reader.get_tensor(key))
    elif not tensor_name:
        print(reader.debug_string().decode("utf-8", errors="ignore"))
    else:
        print("tensor_name: ", tensor_name)
        print(reader.get_tensor(tensor_name))
    total = 0
    import re

    for key, shape in reader.get_variable_to_shape_map().items():
        if count_exclude_pattern and re.match(count_exclude_pattern, key):
            continue
        elements = 1
        for dim in shape:
            elements *= dim
        total += elements
    print("# Total number of params: %d" % total)
