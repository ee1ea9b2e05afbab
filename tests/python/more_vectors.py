"""Conformance cases beyond the packed ones: every op for every dtype that TensorFlow's CPU kernels take, with shapes,
attributes, values and mistakes of all kinds. TensorFlow 2.x answers; nothing is asserted here.

    python more_vectors.py --out DIR/more_vectors [--only SUBSTRING] [--few] [--split]
    python more_vectors_state.py --out DIR/more_vectors --few
    cargo xtask vectors DIR/more_vectors
    cargo xtask pack-vectors DIR

A selection of the cases (`--few`) is packed in `tests/data`. With `--split` each step is a case of its own, so that one difference does not hide the next.
"""
import argparse
import os
import traceback
import zlib

import numpy as np
import tensorflow.compat.v1 as tf

import sweeps_arrays
import sweeps_elements
import sweeps_networks
import sweeps_strings
from sweeps import SWEEPS, Data, cpu_dtypes
from vector_writer import Case, Writer

# Importing a module of sweeps adds them to the list.
assert all((sweeps_arrays, sweeps_elements, sweeps_networks, sweeps_strings)) and SWEEPS


def add_node(case, op, arguments):
    """The node for one set of arguments, its tensors fed; None if the Python client refuses it."""
    arguments = dict(arguments)
    summary = arguments.pop("_summary", False)
    fed = {}
    for name, value in arguments.items():
        if isinstance(value, (np.ndarray, np.generic)):
            value = case.feed(np.asarray(value))
        elif isinstance(value, list) and value and isinstance(value[0], (np.ndarray, np.generic)):
            value = [case.feed(np.asarray(each)) for each in value]
        elif name in ("DstT", "Tout", "out_type", "dtype", "output_type", "out_idx", "Targmax", "output_dtype") and isinstance(value, str):
            value = tf.as_dtype(value)
        fed[name] = value
    try:
        node = getattr(tf.raw_ops, op)(**fed)
    except (ValueError, TypeError, NotImplementedError):
        return None
    if node is None:
        return None
    outputs = list(node) if isinstance(node, (list, tuple)) else [node]
    if op == "FusedBatchNormV3" or op == "FusedBatchNorm" or op == "FusedBatchNormV2":
        outputs = outputs[:3]
    return (outputs, summary) if outputs and isinstance(outputs[0], tf.Tensor) else None


# Cases that once told a difference; they are always packed.
KEPT = {"MaxPool": ["int32"], "Mul": ["float32"], "MulNoNan": ["float32"], "Xlogy": ["float32"], "Xlog1py": ["float32"],
        "Asinh": ["float32", "bfloat16"], "TruncateDiv": ["int32"], "TruncateMod": ["int64"], "Substr": ["int32"]}


def few(op, dtypes):
    """One of the dtypes, another for each op, and those that are kept."""
    if not dtypes:
        return []
    start = zlib.crc32(op.encode())
    chosen = {dtypes[start % len(dtypes)]} | set(KEPT.get(op, []))
    return [d for d in dtypes if d in chosen]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--few", action="store_true", help="one dtype of each op: what is packed")
    parser.add_argument("--split", action="store_true")
    parser.add_argument("--resume", action="store_true", help="leave cases alone that are there, or at which TensorFlow aborted")
    options = parser.parse_args()
    writer = Writer(options.out)
    written = 0
    for family, op, tier, attr, dtypes, tolerance, summing, make in SWEEPS:
        if options.only not in family + "/" + op:
            continue
        if not hasattr(tf.raw_ops, op):
            print("no raw op", op)
            continue
        dtypes = dtypes or cpu_dtypes(op, attr)
        for dtype in few(op, dtypes) if options.few else dtypes:
            data = Data(dtype, len(op) + 1)
            data.op = op
            sets = []
            try:
                for arguments in make(data):
                    sets.append(arguments)
            except (TypeError, ValueError, OverflowError) as error:
                print("data", op, dtype, error)
            groups = [[each] for each in sets] if options.split else [sets]
            for number, group in enumerate(groups):
                name = "%s_%s" % (op, dtype) + ("_%02d" % number if options.split else "")
                if options.resume and os.path.exists(os.path.join(options.out, family, name)):
                    continue
                case = Case(family, name, tier, tolerance, summing)
                with case.graph.as_default():
                    for arguments in group:
                        node = add_node(case, op, arguments)
                        if node:
                            case.run(node[0], summary=node[1])
                if not case.steps:
                    continue
                try:
                    writer.write(case)
                    written += 1
                except Exception:
                    print("failed", family, name)
                    traceback.print_exc()
    print(written, "cases")


if __name__ == "__main__":
    main()
