"""Datasets of parsed examples from files: `tf.data.experimental.make_batched_features_dataset`."""

from tensorfleet.framework import dtypes
from tensorfleet.framework.export import export
from tensorfleet.input import experimental
from tensorfleet.input.dataset import Dataset
from tensorfleet.input.dataset_files import TFRecordDataset


def _shuffled_and_repeated(dataset, num_epochs, shuffle, buffer_size, seed):
    if num_epochs != 1 and shuffle:
        return dataset.apply(experimental.shuffle_and_repeat(buffer_size, num_epochs, seed))
    if shuffle:
        return dataset.shuffle(buffer_size, seed)
    return dataset if num_epochs == 1 else dataset.repeat(num_epochs)


@export("data.experimental.make_batched_features_dataset")
def make_batched_features_dataset(
    file_pattern,
    batch_size,
    features,
    reader=TFRecordDataset,
    label_key=None,
    reader_args=None,
    num_epochs=None,
    shuffle=True,
    shuffle_buffer_size=10000,
    shuffle_seed=None,
    prefetch_buffer_size=None,
    reader_num_threads=None,
    parser_num_threads=None,
    sloppy_ordering=False,
    drop_final_batch=False,
):
    """Batches of features, by key, of the examples in files."""
    dataset = Dataset.list_files(file_pattern, shuffle=shuffle, seed=shuffle_seed)
    arguments = reader_args or []
    dataset = dataset.apply(
        experimental.parallel_interleave(lambda filename: reader(filename, *arguments), cycle_length=reader_num_threads or 1, sloppy=sloppy_ordering)
    )
    if dataset.output_types == (dtypes.string, dtypes.string):
        dataset = dataset.map(lambda _, value: value)
    dataset = _shuffled_and_repeated(dataset, num_epochs, shuffle, shuffle_buffer_size, shuffle_seed)
    dataset = dataset.batch(batch_size, drop_remainder=drop_final_batch or num_epochs is None)
    dataset = dataset.apply(experimental.parse_example_dataset(features, num_parallel_calls=parser_num_threads or 2))
    if label_key:
        if label_key not in features:
            raise ValueError(f"The `label_key` provided ({label_key!r}) must be one of the `features` keys.")
        dataset = dataset.map(lambda parsed: ({key: value for key, value in parsed.items() if key != label_key}, parsed[label_key]))
    return dataset.prefetch(1 if prefetch_buffer_size is None else prefetch_buffer_size)
