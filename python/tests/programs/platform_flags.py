"""Flags: forms on the command line, what is left, changes after parsing."""


def said(act):
    """What an act gives, or how it fails."""
    try:
        return act()
    except Exception as error:
        return "%s: %s" % (type(error).__name__, error)


def program(tf, check):
    flags = tf.app.flags
    values = flags.FlagValues()
    flags.DEFINE_string("ps_hosts", "a:1", "Hosts", flag_values=values)
    flags.DEFINE_integer("n", 3, "Number", lower_bound=0, flag_values=values)
    flags.DEFINE_float("lr", 0.1, "Rate", flag_values=values)
    flags.DEFINE_boolean("sync", False, "Sync", flag_values=values)
    flags.DEFINE_enum("job", "ps", ["ps", "worker"], "Job", flag_values=values)
    flags.DEFINE_list("items", "a,b", "list", flag_values=values)
    flags.DEFINE_spaceseplist("blanks", "a b", "list", flag_values=values)
    flags.DEFINE_multi_integer("m", None, "multi", flag_values=values)
    flags.DEFINE_multi_string("ms", ["x"], "multi", flag_values=values)
    for number, line in enumerate([
        "", "--n=5 --sync x y", "--n 5 --nosync -lr 3 rest", "--n=x", "--n=-1", "--bogus=3", "--sync=maybe", "--sync=1 -- --n=3", "--job=foo",
        "--m=1 --m=2 --items=", "--n", "--nosync=1", "x --n=4", "--lr=abc", "--undefok=bogus --bogus=3", "--n=0x10", "--lr=1e-3 --sync=false",
        "--n=5 - --sync", "--blanks=u --ms=p --ms=q", "--items=\"a,b\",c",
    ]):
        values.unparse_flags()
        check("rest %d" % number, said(lambda: values(["program"] + line.split())))
        check("values %d" % number, {name: values[name].value for name in values})
        check("present %d" % number, [values[name].present for name in sorted(values)])
    values(["program"])
    values.n = 77
    check("changed", values.n)
    check("unknown", said(lambda: values.nope))
    check("set unknown", said(lambda: setattr(values, "nope", 1)))
    check("as text", values.flags_into_string())
    check("known only", values(["program", "--other=1", "--n=1", "z"], known_only=True))
