import os


def program(tf, check):
    os.chdir(os.environ["DIFFERENTIAL_DIRECTORY"])
    with tf.python_io.TFRecordWriter("examples") as writer:
        for index in range(5):
            features = {
                "x": tf.train.Feature(float_list=tf.train.FloatList(value=[index, index * 2.0])),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[index % 2])),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    features = {"x": tf.FixedLenFeature([2], tf.float32), "label": tf.FixedLenFeature([], tf.int64)}
    batches = tf.data.experimental.make_batched_features_dataset("examples", 2, features, label_key="label", num_epochs=1, shuffle=False)
    by_hand = tf.data.TFRecordDataset("examples").map(lambda e: tf.parse_single_example(e, features)).batch(3).prefetch(1)
    with tf.Session() as session:
        for name, dataset in (("batches", batches), ("by hand", by_hand)):
            following = tf.compat.v1.data.make_one_shot_iterator(dataset).get_next()
            found = []
            try:
                while True:
                    found.append(session.run(following))
            except tf.errors.OutOfRangeError:
                check(name, found)


DIFFERENCES = {"*": "tensorfleet has neither ParallelInterleaveDataset nor ParseExampleDataset, and takes ParallelInterleaveDatasetV2 and a map"}
