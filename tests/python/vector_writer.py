"""Writes conformance cases: graphs, what to do with them, and what TensorFlow answered.

`tests/src/case.rs` describes the files. Nobody says here what the right answer is: whatever a step gives, value or
error, becomes what the case expects. A step is therefore only as good as its inputs; see `more_vectors.py`.
"""
import json
import os
import shutil
import tempfile
import threading
import zlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import named_tensor_pb2

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.FATAL)

# Relative and absolute distances that a difference in the order of operations may make.
TOLERANCE = {"DT_FLOAT": (1e-5, 1e-6), "DT_DOUBLE": (1e-10, 1e-12), "DT_HALF": (2e-3, 1e-4),
             "DT_BFLOAT16": (1.6e-2, 1e-3), "DT_COMPLEX64": (1e-5, 1e-6), "DT_COMPLEX128": (1e-10, 1e-12)}


def tensor_proto(value):
    """Numbers as tensor_content, strings as string_val: the encoding of records."""
    array = value if isinstance(value, np.ndarray) else np.array(value, dtype=object if isinstance(value, bytes) else None)
    proto = tf.make_tensor_proto(0)
    proto.Clear()
    if array.dtype.kind in "SUO":
        proto.dtype = types_pb2.DT_STRING
        proto.string_val.extend(v if isinstance(v, bytes) else str(v).encode() for v in array.ravel())
    else:
        proto.dtype = tf.as_dtype(array.dtype).as_datatype_enum
        proto.tensor_content = np.ascontiguousarray(array).tobytes()
    proto.tensor_shape.SetInParent()
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    return proto


class Records:
    """Named tensors, each stored once."""

    def __init__(self):
        self.encoded = []

    def add(self, name, value):
        raw = named_tensor_pb2.NamedTensorProto(name=name, tensor=tensor_proto(value)).SerializeToString(deterministic=True)
        if raw not in self.encoded:
            self.encoded.append(raw)
        return self.encoded.index(raw)

    def delimited(self):
        out = bytearray()
        for raw in self.encoded:
            length = len(raw)
            while length >= 0x80:
                out.append(length & 0x7F | 0x80)
                length >>= 7
            out.append(length)
            out += raw
        return bytes(out)


class Case:
    """Collects the steps of one case while its graph is built."""

    def __init__(self, family, name, tier=1, tolerance=1.0, summing=False, resource=False):
        self.family, self.name, self.tier, self.tolerance, self.summing = family, name, tier, tolerance, summing
        self.resource, self.graph, self.steps, self.files = resource, tf.Graph(), [], {}
        self.random = np.random.RandomState(zlib.crc32((family + "/" + name).encode()) & 0x7FFFFFFF)
        self.fed = {}

    def feed(self, value, shape=None):
        """A placeholder of unknown shape; every later step feeds it with `value` if the step needs it."""
        value = value if isinstance(value, np.ndarray) else np.asarray(value)
        dtype = tf.string if value.dtype.kind in "SUO" else tf.as_dtype(value.dtype)
        placeholder = tf.placeholder(dtype, shape)
        self.fed[placeholder.name] = value
        return placeholder

    def run(self, fetches=(), targets=(), feed=None, session="s0", timeout_ms=None, background=None, must_block=True,
            checks=None, summary=False, unchecked=False):
        """One Session.run; feeds all placeholders of `feed` and those of the values the fetches depend on."""
        fetches = list(fetches) if isinstance(fetches, (list, tuple)) else [fetches]
        targets = list(targets) if isinstance(targets, (list, tuple)) else [targets]
        named = {key if isinstance(key, str) else key.name: value for key, value in (feed or {}).items()}
        for name in needed([f.op for f in fetches] + [t if isinstance(t, tf.Operation) else t.op for t in targets]):
            if name in self.fed:
                named.setdefault(name, self.fed[name])
        self.steps.append({"fetches": [f.name for f in fetches], "feed": named, "session": session,
                           "targets": [t.name if isinstance(t, tf.Operation) else t.op.name for t in targets],
                           "timeout_ms": timeout_ms, "background": background, "must_block": must_block, "checks": checks,
                           "summary": summary, "unchecked": unchecked})

    def join(self, tag):
        self.steps.append({"join": tag})

    def close(self, session):
        self.steps.append({"close_session": session})


def needed(ops):
    """Names of the outputs of placeholders that these ops depend on, in a stable order."""
    seen, pending, names = set(), list(ops), []
    while pending:
        op = pending.pop()
        if op in seen:
            continue
        seen.add(op)
        if op.type == "Placeholder":
            names.append(op.outputs[0].name)
        pending += [t.op for t in op.inputs] + list(op.control_inputs)
    return sorted(names)


class Writer:
    """Runs cases on one TensorFlow server and writes them under a directory."""

    def __init__(self, out):
        self.out = out
        self.server = tf.train.Server.create_local_server()
        self.config = tf.ConfigProto()
        self.config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
        self.config.graph_options.rewrite_options.disable_meta_optimizer = True

    def write(self, case):
        directory = os.path.join(self.out, case.family, case.name)
        shutil.rmtree(directory, ignore_errors=True)
        os.makedirs(directory)
        for name, content in case.files.items():
            with open(os.path.join(directory, name), "wb") as f:
                f.write(content)
        tf.Session.reset(self.server.target)
        feeds, expected = Records(), Records()
        sessions, waiting, steps, seen, void = {}, {}, [], set(), []
        scratch = tempfile.mkdtemp()
        places = {b"${TMP}": scratch.encode(), b"${CASE}": os.path.abspath(directory).encode()}

        def session(name):
            if name not in sessions:
                sessions[name] = tf.Session(self.server.target, graph=case.graph, config=self.config)
            return sessions[name]

        def answer(step):
            options = tf.RunOptions(timeout_in_ms=step["timeout_ms"] or 25000)
            ops = [case.graph.get_operation_by_name(t) for t in step["targets"]]
            try:
                fed = {name: replaced(value, places) for name, value in step["feed"].items()}
                values = session(step["session"]).run(step["fetches"] + ops, fed, options=options)
                back = {value: key for key, value in places.items()}
                return [replaced(v, back) for v in values[:len(step["fetches"])]]
            except tf.errors.OpError as error:
                void.extend(["No OpKernel"] if "No OpKernel" in error.message else [])
                return error

        def describe(step, result):
            written = {"feeds": [feeds.add(n, v) for n, v in step["feed"].items()], "fetches": step["fetches"],
                       "targets": step["targets"], "session": step["session"]}
            if step["timeout_ms"]:
                written["timeout_ms"] = step["timeout_ms"]
            if step["background"]:
                written["background"] = step["background"]
                if not step["must_block"]:
                    written["must_block"] = False
            if step["summary"]:
                written["parse"] = "Summary"
            if isinstance(result, tf.errors.OpError):
                written["error"] = {"code": result.error_code, "contains": ""}
                return written
            if step["checks"]:
                written["checks"] = {str(index): check for index, check in step["checks"].items()}
            written["expected"] = []
            for index, (name, value) in enumerate(zip(step["fetches"], result)):
                if step["unchecked"] or index in (step["checks"] or {}):
                    written["expected"].append(None)
                    continue
                seen.add(types_pb2.DataType.Name(tensor_proto(value).dtype))
                written["expected"].append(expected.add(name, value))
            return written

        for step in case.steps:
            if "join" in step:
                thread, box, index, origin = waiting[step["join"]]
                thread.join(40)
                assert box, "%s/%s: %s never ended" % (case.family, case.name, step["join"])
                steps[index] = describe(origin, box[0])
                steps.append(step)
            elif "close_session" in step:
                sessions.pop(step["close_session"]).close()
                steps.append(step)
            elif step["background"]:
                session(step["session"])
                box = []
                thread = threading.Thread(target=lambda s=step, b=box: b.append(answer(s)), daemon=True)
                thread.start()
                thread.join(0.3)
                assert not step["must_block"] or thread.is_alive(), "%s did not wait: %s" % (step["background"], box)
                waiting[step["background"]] = (thread, box, len(steps), step)
                steps.append(None)
            else:
                steps.append(describe(step, answer(step)))
        # What TensorFlow cannot do somebody else may.
        steps = [s for s in steps if s.get("error", {}).get("code") != tf.errors.UNIMPLEMENTED]
        for s in sessions.values():
            s.close()
        shutil.rmtree(scratch, ignore_errors=True)
        if void:
            # One node without a kernel fails every step of TensorFlow's session: such a case tells nothing.
            shutil.rmtree(directory)
            return []
        graph = case.graph.as_graph_def()
        tolerance = {d: {"rtol": float("%.2g" % (TOLERANCE[d][0] * case.tolerance)),
                         "atol": float("%.2g" % (TOLERANCE[d][1] * case.tolerance))} for d in sorted(seen) if d in TOLERANCE}
        head = {"name": case.family + "/" + case.name, "family": case.family, "tier": case.tier, "doc": None,
                "variables": "resource" if case.resource else "ref", "mode": "session", "cluster": None, "config": None,
                "ops": sorted({n.op for n in graph.node}), "tolerance": tolerance, "atol_times_max": case.summing}
        lines = json.dumps(head, indent=1)[:-2] + ',\n "steps": [\n  '
        lines += ",\n  ".join(json.dumps(s) for s in steps) + "\n ]\n}\n"
        for name, content in (("graph.pb", graph.SerializeToString(deterministic=True)), ("feeds.pb", feeds.delimited()),
                              ("expected.pb", expected.delimited()), ("case.json", lines.encode())):
            with open(os.path.join(directory, name), "wb") as f:
                f.write(content)
        return [s for s in steps if "error" in s]


def replaced(value, table):
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        out = np.empty(value.shape, object)
        for index in np.ndindex(*value.shape):
            out[index] = replaced(value[index], table)
        return out
    if isinstance(value, bytes):
        for key, text in table.items():
            value = value.replace(key, text)
    return value
