"""Messages: values, presence, copies, text, bytes, and the errors of wrong values."""


def said(act):
    """What an act gives, or how it fails."""
    try:
        return act()
    except Exception as error:
        return "%s: %s" % (type(error).__name__, error)


def program(tf, check):
    import numpy as np

    config = tf.ConfigProto(device_count={"GPU": 0, "CPU": 3}, gpu_options={"allow_growth": True}, device_filters=["/job:ps"])
    check("unset", config.HasField("graph_options"))
    config.graph_options.optimizer_options.opt_level = -1
    config.session_inter_op_thread_pool.add(num_threads=3, global_name=u"a\n\"'\xe9\x01")
    config.gpu_options.per_process_gpu_memory_fraction = 1.0
    check("text", str(config))
    check("bytes", config.SerializeToString(deterministic=True).hex())
    check("size", config.ByteSize())
    check("fields", [field.name for field, _ in config.ListFields()])
    again = tf.ConfigProto.FromString(config.SerializeToString())
    check("again", [again == config, again.device_count["CPU"], again.session_inter_op_thread_pool[0].num_threads])
    again.MergeFrom(tf.ConfigProto(device_filters=["/job:worker"], allow_soft_placement=True))
    check("merged", str(again))
    again.ClearField("gpu_options")
    check("cleared", again.HasField("gpu_options"))
    wrong = [("foo", 1), ("allow_soft_placement", "x"), ("intra_op_parallelism_threads", "x"), ("intra_op_parallelism_threads", 1.5),
             ("intra_op_parallelism_threads", 1 << 40), ("gpu_options", 1), ("device_filters", ["a"]), ("device_count", {})]
    for number, (name, value) in enumerate(wrong):
        check("wrong %d" % number, said(lambda: setattr(config, name, value)))
    check("constructors", [said(lambda: tf.ConfigProto(foo=1)), said(lambda: tf.ConfigProto(gpu_options=3)), said(lambda: tf.ConfigProto(3))])
    check("append", said(lambda: config.device_filters.append(1)))
    check("copy", said(lambda: config.CopyFrom(tf.RunOptions())))
    check("merge", said(lambda: config.MergeFrom(3)))
    check("presence", [said(lambda: config.HasField(name)) for name in ("foo", "allow_soft_placement", "device_filters")])
    check("hash", said(lambda: hash(config)))
    check("trace", [tf.RunOptions.FULL_TRACE, tf.RunOptions.TraceLevel.Name(3), said(lambda: tf.RunOptions.TraceLevel.Name(33)), said(lambda: tf.RunOptions.TraceLevel.Value("X"))])
    check("by name", tf.RunOptions(trace_level="FULL_TRACE").trace_level)
    value = tf.AttrValue(i=0)
    check("oneof", [value.WhichOneof("value"), value.HasField("i"), value.HasField("value"), said(lambda: value.WhichOneof("x"))])
    value.list.i.extend([1, np.int64(2)])
    check("other member", [value.WhichOneof("value"), str(value)])
    node = tf.NodeDef(name="a", input=["b", "c"])
    node.attr["T"].type = 1
    check("map", [sorted(node.attr), node.attr.get("q") is None, said(lambda: node.attr.__setitem__("z", value)), str(node)])
    check("bytes and text", [said(lambda: setattr(value, "s", u"abc")), said(lambda: setattr(node, "name", b"\xff")), said(lambda: setattr(node, "name", 3))])
    check("bad bytes", [said(lambda: tf.ConfigProto.FromString(data)) for data in (b"\xff\xff", b"\x0a\xff")])
    check("histogram", str(tf.HistogramProto(min=0.1, max=1, num=1e10, sum=1e20, sum_squares=1 / 3.0, bucket_limit=[1e15, 1e16, 1e-5, 0.0001])))
    check("floats", str(tf.train.FloatList(value=[0.1, 1, 1e10, 1.5, float("inf"), 1 / 3.0])))
