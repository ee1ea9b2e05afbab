"""Sums of segments, counts, histograms, confusion matrices."""


def program(tf, check):
    data = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    found = [(str(index), function(data, [0, 0, 1])) for index, function in enumerate((tf.segment_sum, tf.segment_mean, tf.segment_prod, tf.segment_min, tf.segment_max))]
    unsorted = (tf.unsorted_segment_sum, tf.unsorted_segment_mean, tf.unsorted_segment_prod, tf.unsorted_segment_min, tf.unsorted_segment_max, tf.unsorted_segment_sqrt_n)
    found += [(f"unsorted {index}", function(data, [1, 0, 1], 2)) for index, function in enumerate(unsorted)]
    found += [("sparse sum", tf.sparse_segment_sum(data, [0, 2], [0, 0])), ("sparse mean", tf.sparse_segment_mean(data, [0, 2], [0, 1])), ("sparse sqrt", tf.sparse_segment_sqrt_n(data, [0, 2], [0, 0], num_segments=2))]
    found += [("bincount", tf.bincount([1, 1, 3])), ("bincount length", tf.bincount([1, 1, 3], minlength=6)), ("bincount weights", tf.bincount([1, 1, 2], weights=[1.0, 2.0, 3.0]))]
    found += [("histogram", tf.histogram_fixed_width([1.0, 2.0, 9.0], [0.0, 5.0], nbins=5)), ("bins", tf.histogram_fixed_width_bins([1.0, 2.0, 9.0], [0.0, 5.0], nbins=5))]
    found += [("confusion", tf.confusion_matrix([1, 0, 2], [1, 1, 2])), ("confusion classes", tf.confusion_matrix([1, 0], [1, 1], num_classes=3, dtype=tf.float32, weights=[0.5, 2.0]))]

    with tf.Session() as session:
        for name, tensor in found:
            check(name, session.run(tensor))
