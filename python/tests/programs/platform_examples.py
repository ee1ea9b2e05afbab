"""Examples and sequence examples, as input pipelines write them."""


def said(act):
    """What an act gives, or how it fails."""
    try:
        return act()
    except Exception as error:
        return "%s: %s" % (type(error).__name__, error)


def program(tf, check):
    feature = {
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"\x00\xff", b"text"])),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[3, -1])),
        "weight": tf.train.Feature(float_list=tf.train.FloatList(value=[0.5])),
    }
    example = tf.train.Example(features=tf.train.Features(feature=feature))
    check("text", str(example))
    check("bytes", example.SerializeToString(deterministic=True).hex())
    again = tf.train.Example.FromString(example.SerializeToString())
    check("values", [list(again.features.feature["label"].int64_list.value), list(again.features.feature["image"].bytes_list.value)])
    again.features.feature["more"].float_list.value.append(2.0)
    check("kinds", [again.features.feature[name].WhichOneof("kind") for name in sorted(again.features.feature)])
    sequence = tf.train.SequenceExample(context=example.features)
    steps = sequence.feature_lists.feature_list["steps"]
    for step in range(3):
        steps.feature.add().int64_list.value.append(step)
    check("sequence", str(sequence))
    check("sequence bytes", sequence.SerializeToString(deterministic=True).hex())
    check("wrong", [said(lambda: tf.train.Int64List(value=[1.5])), said(lambda: tf.train.BytesList(value=[u"a"])), said(lambda: tf.train.Feature(foo=1)),
                    said(lambda: tf.train.Int64List(value=3))])
