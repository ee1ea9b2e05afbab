"""Sweeps of strings, and of random streams that a seed decides."""
import numpy as np
import tensorflow.compat.v1 as tf

from sweeps import I, L, S, sweep


# --- strings ---------------------------------------------------------------------------------------------------------

@sweep("strings", "AsString", attr="T")
def _(v):
    yield {"input": v(4)}
    if not v.dtype.is_complex:
        yield {"input": v.special()}
    yield {"input": v(2), "width": 8}
    yield {"input": v(2), "width": 8, "fill": "0"}
    yield {"input": v(2), "width": 8, "fill": "-"}
    yield {"input": v(2), "fill": "+", "width": 3}
    if v.dtype.is_floating or v.dtype.is_complex:
        yield {"input": v(3), "precision": 3}
        yield {"input": v(3), "scientific": True}
        yield {"input": v(3), "shortest": True}
        yield {"input": v(3), "precision": 2, "scientific": True, "width": 12}
    else:
        yield {"input": v(3), "precision": 3}
    yield {"input": v(0, 2)}


@sweep("strings", "StringToNumber", attr="out_type")
def _(v):
    for text in (b"1", b"-7", b" 5 ", b"+3", b"1.5", b"1e3", b"", b"abc", b"nan", b"inf", b"-inf", b"99999999999999999999", b"0x10", b"1_000", b"-0", b"1e400", b"1e-400", b"3.", b".5", b"300", b"-129"):
        yield {"string_tensor": S(text), "out_type": v.name}
    yield {"string_tensor": S(b"1", b"2").reshape(1, 2), "out_type": v.name}
    yield {"string_tensor": S(), "out_type": v.name}


@sweep("strings", "DecodeRaw", attr="out_type")
def _(v):
    size = v.dtype.size
    raw = bytes(range(1, 1 + 2 * size)) if v.name != "bool" else b"\x00\x01"
    for data in (S(raw, raw), S(raw), S(b"", b""), S(), S(raw, raw[:size]), S(raw[:-1])):
        yield {"bytes": data, "out_type": v.name}
    if v.name != "bool":
        yield {"bytes": S(raw), "out_type": v.name, "little_endian": False}
    yield {"bytes": np.array(raw, object), "out_type": v.name}


STRINGS = [S(b"Hello, World", b"", "gr\u00fc\u00dfe \u4e16".encode(), b"  a  b "), np.array(b"x", object), S()]


@sweep("strings", "StringLower StringUpper StringStrip StringLength EncodeBase64 StringToHashBucketFast StringToHashBucket StringToHashBucketStrong", dtypes=["string"])
def _(v):
    name = "string_tensor" if v.op == "StringToHashBucket" else "input"
    extra = [{"num_buckets": n} for n in (1, 10, 1000003)] if "Bucket" in v.op else [{}]
    if v.op.endswith("Strong"):
        extra = [dict(e, key=[3, 17]) for e in extra]
    if v.op in ("StringLower", "StringUpper"):
        extra = [{}, {"encoding": "utf-8"}]
    if v.op == "StringLength":
        extra = [{}, {"unit": "UTF8_CHAR"}]
    if v.op == "EncodeBase64":
        extra = [{}, {"pad": True}]
    for s in STRINGS:
        for e in extra:
            yield dict({name: s}, **e)


@sweep("strings", "StringJoin", dtypes=["string"])
def _(v):
    yield {"inputs": [S(b"a", b"b"), S(b"c", b"d")], "separator": "-"}
    yield {"inputs": [S(b"a", b"b"), np.array(b"c", object)], "separator": ""}
    yield {"inputs": [S(b"a", b"b"), S(b"c")]}
    yield {"inputs": [S(), S()]}


@sweep("strings", "Substr", attr="T")
def _(v):
    for s, p, n in ((S(b"hello", b"world"), [1, 2], [2, 3]), (S(b"hello", b"world"), 1, 3), (S(b"hello"), [9], [1]), (S(b"hello"), [-3], [2]), (S(b"hello"), [-6], [2]), (S(b"hello"), [5], [2]), (S(b"hello"), [0], [-1]), (np.array(b"abc", object), [0, 1], [1, 1]), (S(b"a", b"b").reshape(2, 1), [0], [1]), (S("\u4e16\u754c!".encode()), [1], [1])):
        for unit in ("BYTE", "UTF8_CHAR"):
            yield {"input": s, "pos": v.array(p), "len": v.array(n), "unit": unit}


@sweep("strings", "RegexReplace StaticRegexReplace", dtypes=["string"])
def _(v):
    for p, r, g in (("l+", "L", True), ("l", "[\\0]", False), ("(\\w)(\\w)", "\\2\\1", True), ("", "-", True), ("^\\s*|\\s*$", "", True), ("[", "x", True), ("(?i)HELLO", "bye", True), ("a", "\\5", True), (".", "\\\\", True)):
        if v.op == "RegexReplace":
            yield {"input": STRINGS[0], "pattern": np.array(p.encode(), object), "rewrite": np.array(r.encode(), object), "replace_global": g}
        else:
            yield {"input": STRINGS[0], "pattern": p, "rewrite": r, "replace_global": g}


@sweep("strings", "RegexFullMatch StaticRegexFullMatch", dtypes=["string"])
def _(v):
    for p in (".*", "Hello.*", "", "[a-z ]*", "("):
        yield {"input": STRINGS[0], "pattern": np.array(p.encode(), object) if v.op == "RegexFullMatch" else p}


@sweep("strings", "StringSplit", dtypes=["string"])
def _(v):
    for d in (b" ", b"", b"l", b" ,"):
        for skip in (True, False):
            yield {"input": STRINGS[0], "delimiter": np.array(d, object), "skip_empty": skip}
    yield {"input": S(), "delimiter": np.array(b" ", object)}
    yield {"input": np.array(b"a b", object), "delimiter": np.array(b" ", object)}


@sweep("strings", "StringSplitV2", dtypes=["string"])
def _(v):
    for d, m in ((b"", -1), (b" ", -1), (b"l", 1), (b", ", 2), (b"", 1), (b" ", 0)):
        yield {"input": STRINGS[0], "sep": np.array(d, object), "maxsplit": m}
    yield {"input": S(), "sep": np.array(b" ", object)}


@sweep("strings", "ReduceJoin", dtypes=["string"])
def _(v):
    for s, axes in (((2, 3), [0]), ((2, 3), [1]), ((2, 3), [-1]), ((2, 3), [0, 1]), ((2, 3), [1, 0]), ((2, 3), []), ((2, 3), [2]), ((2, 3), [0, 0]), ((0, 2), [0]), ((2, 2, 2), [0, 2])):
        yield {"inputs": v(*s), "reduction_indices": I(*axes), "separator": ","}
        yield {"inputs": v(*s), "reduction_indices": I(*axes), "keep_dims": True}


@sweep("strings", "DecodeBase64", dtypes=["string"])
def _(v):
    yield from ({"input": S(t)} for t in (b"YWJj", b"YQ", b"YQ==", b"_-8", b"!!", b"", b"Y", b"YWJjZA=="))


@sweep("strings", "DecodeCSV", dtypes=["string"])
def _(v):
    f = np.zeros([0], np.float32)
    for line in (b"1,2.5,x", b"7,,", b"1,2", b"a,2,x", b'1,2.5,"a,b"', b'1,2.5,"a""b"', b"1,2.5,x,y", b' 3 , 4 , z ', b'1,2.5,a"b'):
        yield {"records": S(line), "record_defaults": [np.array([0], np.int64), np.array([0.5], np.float32), S(b"d")]}
    yield {"records": S(b"1;2"), "record_defaults": [np.zeros([0], np.int32), np.zeros([0], np.float64)], "field_delim": ";"}
    yield {"records": S(b";2"), "record_defaults": [np.zeros([0], np.int32), f], "field_delim": ";"}
    yield {"records": S(b"NA,2"), "record_defaults": [np.array([9], np.int32), f], "na_value": "NA"}
    yield {"records": S(b"1,2,3"), "record_defaults": [np.array([9], np.int32)], "select_cols": [1]}


# --- exact random streams --------------------------------------------------------------------------------------------

@sweep("random_seeded", "RandomUniform RandomStandardNormal TruncatedNormal", attr="dtype", tolerance=1.0)
def _(v):
    for shape in ((), (3,), (2, 5), (0, 2), (257,), (1025,)):
        for seed, seed2 in ((1, 2), (87654321, 5), (0, 9)):
            yield {"shape": I(*shape), "dtype": v.name, "seed": seed, "seed2": seed2}
    yield {"shape": L(4), "dtype": v.name, "seed": 3, "seed2": 4}
    yield {"shape": I(-1), "dtype": v.name, "seed": 3, "seed2": 4}


@sweep("random_seeded", "RandomUniformInt", attr="Tout")
def _(v):
    for lo, hi in ((0, 10), (-5, 5), (0, 2 ** 31 - 1), (3, 4), (4, 4), (5, 4)):
        yield {"shape": I(7), "minval": v.array(lo), "maxval": v.array(hi), "seed": 1, "seed2": 2}
    yield {"shape": I(0), "minval": v.array(5), "maxval": v.array(4), "seed": 1, "seed2": 2}


@sweep("random_seeded", "RandomShuffle")
def _(v):
    for shape in ((7,), (4, 2), (0,), (1, 3), ()):
        yield {"value": v(*shape), "seed": 5, "seed2": 6}


@sweep("random_seeded", "Multinomial", attr="T")
def _(v):
    yield {"logits": v(2, 5), "num_samples": np.int32(6), "seed": 5, "seed2": 6}
    yield {"logits": v(1, 3), "num_samples": np.int32(3), "seed": 5, "seed2": 6, "output_dtype": "int32"}
    yield {"logits": v(2, 5), "num_samples": np.int32(0), "seed": 5, "seed2": 6}
    yield {"logits": v(2, 0), "num_samples": np.int32(2), "seed": 5, "seed2": 6}
    yield {"logits": v(3), "num_samples": np.int32(2), "seed": 5, "seed2": 6}


@sweep("random_seeded", "RandomGamma", attr="T")
def _(v):
    yield {"shape": I(5), "alpha": v.array([0.5, 2.0]), "seed": 5, "seed2": 6}
    yield {"shape": I(2, 2), "alpha": v.array(1.0), "seed": 5, "seed2": 6}
    yield {"shape": I(0), "alpha": v.array(1.0), "seed": 5, "seed2": 6}


@sweep("random_seeded", "StatelessRandomUniform StatelessRandomNormal StatelessTruncatedNormal", attr="dtype")
def _(v):
    for shape in ((), (5,), (2, 3), (257,)):
        yield {"shape": I(*shape), "seed": I(3, 9), "dtype": v.name}
        yield {"shape": L(*shape), "seed": L(-3, 2 ** 40), "dtype": v.name}


@sweep("random_seeded", "StatelessRandomUniformInt", attr="dtype")
def _(v):
    yield {"shape": I(5), "seed": I(3, 9), "minval": v.array(-3), "maxval": v.array(9)}
    yield {"shape": I(5), "seed": I(3, 9), "minval": v.array(3), "maxval": v.array(3)}
