"""Summary ops: names, tags, families, merged, and the values they give."""


def program(tf, check):
    loss = tf.constant(0.25, name="loss")
    tf.summary.scalar("loss", loss)
    tf.summary.scalar("with space", loss)
    tf.summary.scalar("in_family", loss, family="family")
    tf.summary.histogram("values", [1.0, 2.0, 2.0, 5.0])
    with tf.name_scope("scope"):
        tf.summary.scalar("inner", loss)
        tf.summary.scalar("inner", loss, collections=["mine"])
    image = tf.summary.image("picture", tf.ones([2, 4, 4, 3]), max_outputs=1)
    sound = tf.summary.audio("sound", tf.zeros([1, 100, 1]), 8000.0)
    text = tf.summary.text("words", tf.constant(["one", "two"]))
    tensor = tf.summary.tensor_summary("tensor", tf.constant([1.0, 2.0]))
    merged = tf.summary.merge_all()
    some = tf.summary.merge([image, text], name="some")
    nothing = tf.summary.merge_all("nothing")
    mine = tf.summary.merge_all("mine")
    check("names", [merged.name, some.name, str(nothing), mine.name, image.name, sound.name, tensor.name])
    check("collection", [op.name for op in tf.get_collection(tf.GraphKeys.SUMMARIES)])
    with tf.Session() as sess:
        read = tf.Summary.FromString(sess.run(merged))
        check("tags", [value.tag for value in read.value])
        check("kinds", [value.WhichOneof("value") for value in read.value])
        check("numbers", [value.simple_value for value in read.value if value.HasField("simple_value")])
        histogram = [value.histo for value in read.value if value.HasField("histo")][0]
        check("histogram", [histogram.min, histogram.max, histogram.num, histogram.sum, histogram.sum_squares, list(histogram.bucket_limit), list(histogram.bucket)])
        picture = [value.image for value in read.value if value.HasField("image")][0]
        check("image", [picture.height, picture.width, picture.colorspace])
        sounds = [value.audio for value in read.value if value.HasField("audio")][0]
        check("audio", [sounds.sample_rate, sounds.num_channels, sounds.length_frames, sounds.content_type])
        check("metadata", [value.metadata.plugin_data.plugin_name for value in read.value])
