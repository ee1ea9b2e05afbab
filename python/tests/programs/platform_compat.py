"""Text and bytes, versions, and what the program stands on."""


def said(act):
    """What an act gives, or how it fails."""
    try:
        return act()
    except Exception as error:
        return "%s: %s" % (type(error).__name__, error)


def program(tf, check):
    for name in ("as_bytes", "as_text", "as_str"):
        function = getattr(tf.compat, name)
        check(name, [said(lambda: repr(function(value))) for value in (b"abc", u"abc", u"\xe9", 3, None)])
    check("any", [tf.compat.as_str_any(value) for value in (b"a", u"b", 3, None)])
    check("path", tf.compat.path_to_str("a/b"))
    check("versions", [tf.__version__, tf.VERSION, tf.version.VERSION, tf.version.GRAPH_DEF_VERSION, tf.GIT_VERSION, tf.version.GRAPH_DEF_VERSION_MIN_CONSUMER])
    check("forward", [tf.compat.forward_compatible(2019, 1, 1), tf.compat.forward_compatible(2030, 1, 1)])
    with tf.compat.forward_compatibility_horizon(2031, 1, 1):
        check("later", tf.compat.forward_compatible(2030, 1, 1))
    check("same names", tf.compat.v1.float32 == tf.float32)
    check("kinds", [isinstance(3, tf.compat.integral_types), isinstance(3.0, tf.compat.integral_types), isinstance(3.0, tf.compat.real_types)])
    check("dimension", [tf.compat.dimension_value(tf.Dimension(3)), tf.compat.dimension_value(None), tf.dimension_value(tf.TensorShape([1, 2])[1])])
    check("eager", [tf.executing_eagerly(), tf.control_flow_v2_enabled()])
    check("levels", [tf.logging.DEBUG, tf.logging.INFO, tf.logging.WARN, tf.logging.ERROR, tf.logging.FATAL])
