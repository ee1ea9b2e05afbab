"""Flags: validators, required and exclusive flags, defaults that do not fit, aliases, help."""


def said(act):
    """What an act gives, or how it fails."""
    try:
        return act()
    except Exception as error:
        return "%s: %s" % (type(error).__name__, error)


def program(tf, check):
    flags = tf.flags

    def fresh():
        values = flags.FlagValues()
        flags.DEFINE_string("a", None, "A", flag_values=values)
        flags.DEFINE_integer("b", 1, "B", flag_values=values)
        flags.DEFINE_integer("c", None, "C", flag_values=values)
        flags.DEFINE_boolean("d", False, "D", flag_values=values)
        flags.DEFINE_boolean("e", False, "E", flag_values=values)
        return values

    values = fresh()
    flags.mark_flag_as_required("a", flag_values=values)
    flags.register_validator("b", lambda b: b < 5, message="b too big", flag_values=values)
    flags.mark_flags_as_mutual_exclusive(["a", "c"], flag_values=values)
    flags.mark_bool_flags_as_mutual_exclusive(["d", "e"], flag_values=values)
    flags.register_multi_flags_validator(["b", "d"], lambda all: all["b"] != 3 or all["d"], message="3 needs d", flag_values=values)
    for line in ["", "--a=1", "--a=1 --b=7", "--a=1 --c=1", "--a=1 --d --e", "--a=1 --b=3", "--a=1 --b=3 --d"]:
        check("rules " + line, said(lambda: fresh_call(values, line)))
    values = fresh()
    check("unparsed", said(lambda: values.a))
    check("bad default", said(lambda: flags.DEFINE_integer("z", "abc", "h", flag_values=values)))
    check("bad word", said(lambda: flags.DEFINE_enum("z", "abc", ["a"], "h", flag_values=values)))
    check("no words", said(lambda: flags.DEFINE_enum("z", None, [], "h", flag_values=values)))
    check("empty name", said(lambda: flags.DEFINE_integer("", 1, "h", flag_values=values)))
    check("a method's name", said(lambda: flags.DEFINE_integer("is_parsed", 1, "h", flag_values=values)))
    check("bounds", [flags.IntegerParser(*bounds).syntactic_help for bounds in ((0,), (1,), (None, 0), (None, -1), (2, 5), (7,), (None, 7), ())])
    flags.DEFINE_alias("second", "b", flag_values=values)
    values(["program", "--second=9"])
    check("alias", [values.b, values.second])
    values.set_default("c", 4)
    check("default", [values.c, values["c"].default, values["c"].using_default_value])
    check("as arguments", list(flags.flag_dict_to_args({"x": 1, "y": True, "z": False, "w": [1, 2], "v": None})))
    check("wrapped", flags.text_wrap("many words " * 20, 40, "  ", ""))
    check("doc", flags.doc_to_help("\n  One\n  line.\n\n  Two.\n"))


def fresh_call(values, line):
    values.unparse_flags()
    return values(["program"] + line.split())
