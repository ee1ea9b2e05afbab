"""Runs programs with TensorFlow 1.15 and with tensorfleet, and compares graphs and values.

    python python/tests/differential.py [NAME…] [--verbose]

A program is a file in `programs/` with `def program(tf, check):`. It builds a graph, runs it, and calls `check(name, value)`
for every value that must agree. The default graph at its end is compared, node by node: name, op, inputs, attributes, device.
Nodes below a scope called `gradients` are compared by the values they lead to, because the library's gradient graphs are
smaller. `DIFFERENCES` in a program names other nodes (`*` at the end stands for any rest) that differ, with the reason.

`TENSORFLEET_TF1_PYTHON` is an interpreter with TensorFlow 1.15; the interpreter that runs this has tensorfleet. Answers of
TensorFlow are kept in `target/differential` and made again when a program or this file changes.
"""

import argparse
import fnmatch
import hashlib
import importlib.util
import json
import os
import pickle
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PROGRAMS = os.path.join(HERE, "programs")
#: Attributes that only say how a node came about, or that 1.15 leaves out where they have their defaults.
IGNORED_ATTRIBUTES = {"_output_shapes"}
TIMEOUT_SECONDS = 300
#: What TensorFlow makes up to tell tables and functions apart.
UNIQUE_NAME = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
UNIQUE_FUNCTION = re.compile("_([0-9]+|[A-Za-z0-9_-]{11})$")


def load(path):
    spec = importlib.util.spec_from_file_location("differential_program", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def plain(value):
    """A value as lists, numbers and strings, with its kind."""
    import numpy as np

    if isinstance(value, dict):
        return {"dict": [[str(key), plain(item)] for key, item in sorted(value.items(), key=lambda pair: str(pair[0]))]}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {"tuple": [plain(item) for item in value]}
    if isinstance(value, (list, tuple)):
        return {"list": [plain(item) for item in value]}
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        kind = "string" if array.dtype.kind in "OSU" else str(array.dtype)
        items = [item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item) for item in array.ravel()] if kind == "string" else None
        if items is None:
            array = np.stack([array.real, array.imag], -1) if array.dtype.kind == "c" else array
            items = array.astype("float64").ravel().tolist()
        return {"array": kind, "shape": list(np.asarray(value).shape), "items": items}
    if isinstance(value, bytes):
        return {"text": value.decode("utf-8", "replace")}
    if isinstance(value, bool) or value is None or isinstance(value, (int, str)):
        return {"text": str(value)}
    if isinstance(value, float):
        return {"array": "float", "shape": [], "items": [value]}
    return {"text": str(value)}


def nodes_of(graph_def):
    """The nodes of a `GraphDef` in a form that both sides make alike."""
    found = {}
    for node in graph_def.node:
        attrs = {}
        for key, value in node.attr.items():
            if key in IGNORED_ATTRIBUTES:
                continue
            attrs[key] = attribute(value)
        found[node.name] = [node.op, list(node.input), node.device, attrs]
    return found


def attribute(value):
    import numpy as np

    kind = value.WhichOneof("value")
    if kind == "tensor":
        from_proto = nodes_of.make_ndarray(value.tensor)
        return ["tensor", plain(np.asarray(from_proto))]
    if kind == "list":
        held = value.list
        for field in ("s", "i", "f", "b", "type", "shape", "tensor", "func"):
            items = list(getattr(held, field))
            if items:
                return ["list", [scalar(field, item) for item in items]]
        return ["list", []]
    return [kind, scalar(kind, getattr(value, kind))] if kind else ["none", None]


def scalar(kind, value):
    if kind == "s":
        return UNIQUE_NAME.sub("UNIQUE", value.decode("utf-8", "replace"))
    if kind == "shape":
        return None if value.unknown_rank else [dim.size for dim in value.dim]
    if kind == "tensor":
        return plain(nodes_of.make_ndarray(value))
    if kind == "func":
        return UNIQUE_FUNCTION.sub("", value.name)
    if kind == "f":
        return round(value, 6)
    return value


def run_side(path, output):
    """Runs one program with whatever `tensorflow` this interpreter has, or tensorfleet."""
    if os.environ.get("DIFFERENTIAL_SIDE") == "tensorfleet":
        import tensorfleet as tf
    else:
        import tensorflow as tf

        tf.logging.set_verbosity(tf.logging.ERROR)
    nodes_of.make_ndarray = tf.make_ndarray
    values = []
    module = load(path)
    with tempfile.TemporaryDirectory() as directory:
        os.environ["DIFFERENTIAL_DIRECTORY"] = directory
        module.program(tf, lambda name, value: values.append([name, plain(value)]))
        graph = nodes_of(tf.get_default_graph().as_graph_def())
    with open(output, "wb") as file:
        pickle.dump({"values": values, "graph": graph}, file, protocol=2)


def ask(interpreter, side, path):
    """The answer of one side, from another process."""
    with tempfile.NamedTemporaryFile() as output:
        environment = dict(os.environ, DIFFERENTIAL_SIDE=side, TF_CPP_MIN_LOG_LEVEL="3", PYTHONHASHSEED="0")
        if side == "tensorfleet":
            environment["PYTHONPATH"] = os.path.join(ROOT, "python") + os.pathsep + environment.get("PYTHONPATH", "")
        else:
            environment.pop("PYTHONPATH", None)
        command = [interpreter, "-W", "ignore", os.path.abspath(__file__), "--side", path, output.name]
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            return None, f"no end within {TIMEOUT_SECONDS} s"
        if done.returncode != 0:
            return None, (done.stderr.strip() or done.stdout.strip())[-3000:]
        with open(output.name, "rb") as file:
            return pickle.load(file), None


def kept_answer(interpreter, path):
    """TensorFlow's answer, kept while neither the program nor this file changes."""
    with open(path, "rb") as program, open(__file__, "rb") as harness:
        key = hashlib.sha256(program.read() + harness.read()).hexdigest()[:16]
    directory = os.path.join(ROOT, "target", "differential")
    kept = os.path.join(directory, f"{os.path.basename(path)[:-3]}-{key}.pickle")
    if os.path.exists(kept):
        with open(kept, "rb") as file:
            return pickle.load(file), None
    answer, error = ask(interpreter, "tensorflow", path)
    if answer is not None:
        os.makedirs(directory, exist_ok=True)
        with open(kept + ".new", "wb") as file:
            pickle.dump(answer, file)
        os.replace(kept + ".new", kept)
    return answer, error


def close(ours, theirs, tolerance):
    if type(ours) is not type(theirs):
        return False
    if isinstance(ours, float):
        if ours != ours or theirs != theirs:
            return ours != ours and theirs != theirs
        return abs(ours - theirs) <= tolerance * max(1.0, abs(theirs)) or ours == theirs
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(close(a, b, tolerance) for a, b in zip(ours, theirs))
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(close(ours[key], theirs[key], tolerance) for key in ours)
    return ours == theirs


def explained(name, differences):
    """Whether a node may differ: it computes gradients, or the program says why."""
    if "gradients" in name.split("/") or any(part.startswith("gradients_") for part in name.split("/")):
        return True
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in differences)


def touches_gradients(inputs):
    return any(explained(text.lstrip("^").split(":")[0], ()) for text in inputs)


def compare_graphs(ours, theirs, differences):
    found = []
    for name in sorted(set(ours) | set(theirs)):
        if explained(name, differences):
            continue
        if name not in ours:
            found.append(f"node {name} ({theirs[name][0]}) is missing")
        elif name not in theirs:
            found.append(f"node {name} ({ours[name][0]}) is one too many")
        else:
            for what, a, b in zip(("op", "inputs", "device", "attributes"), ours[name], theirs[name]):
                if what == "inputs" and (touches_gradients(a) or touches_gradients(b)):
                    continue
                if what == "inputs":
                    data = [[item for item in side if not item.startswith("^")] for side in (a, b)]
                    control = [sorted(item for item in side if item.startswith("^") and not explained(item[1:], differences)) for side in (a, b)]
                    a, b = data[0] + control[0], data[1] + control[1]
                if what == "attributes":
                    keys = sorted(key for key in set(a) | set(b) if not close(a.get(key), b.get(key), 1e-5))
                    a, b = {key: a.get(key) for key in keys}, {key: b.get(key) for key in keys}
                if a != b:
                    found.append(f"node {name}: {what} {json.dumps(a)[:300]}, TensorFlow has {json.dumps(b)[:300]}")
    return found


def compare(name, verbose):
    path = os.path.join(PROGRAMS, f"{name}.py")
    interpreter = os.environ.get("TENSORFLEET_TF1_PYTHON") or os.path.join(ROOT, "target", "python", "tf1", "bin", "python")
    theirs, error = kept_answer(interpreter, path)
    if error:
        return [f"TensorFlow failed: {error}"]
    ours, error = ask(sys.executable, "tensorfleet", path)
    if error:
        return [f"tensorfleet failed: {error}"]
    module = load(path)
    found = compare_graphs(ours["graph"], theirs["graph"], getattr(module, "DIFFERENCES", {}))
    names = [name for name, _ in theirs["values"]]
    if [name for name, _ in ours["values"]] != names:
        found.append(f"checked {[name for name, _ in ours['values']]}, TensorFlow {names}")
    tolerance = getattr(module, "TOLERANCE", 1e-5)
    for (key, a), (_, b) in zip(ours["values"], theirs["values"]):
        if not close(a, b, tolerance):
            found.append(f"value {key}: {json.dumps(a)[:300]}, TensorFlow has {json.dumps(b)[:300]}")
    if not names:
        found.append("the program checks nothing")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--all", action="store_true", help="all programs (also if none is named)")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--side", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        run_side(*arguments.side)
        return 0
    every = sorted(file[:-3] for file in os.listdir(PROGRAMS) if file.endswith(".py"))
    names = [name for name in every if not arguments.names or any(fnmatch.fnmatch(name, pattern) for pattern in arguments.names)]
    failed = 0
    for name in names:
        found = compare(name, arguments.verbose)
        failed += bool(found)
        if found or arguments.verbose:
            print(f"{'FAILED' if found else 'ok':<8}{name}")
        for line in found[:None if arguments.verbose else 12]:
            print(f"        {line}")
        if len(found) > 12 and not arguments.verbose:
            print(f"        … and {len(found) - 12} more")
    print(f"{len(names) - failed} passed, {failed} failed")
    return 1 if failed or not names else 0


if __name__ == "__main__":
    sys.exit(main())
