"""Runs programs with TensorFlow 1.15 and with tensorfleet, and compares graphs and values.

    python python/tests/differential.py [NAME…] [--verbose]

A program is a file in `programs/` with `def program(tf, check):`. It builds a graph, runs it, and calls `check(name, value)`
for every value that must agree. The default graph at its end is compared, node by node: name, op, inputs, attributes, device.
Nodes below a scope called `gradients` are compared by the values they lead to, because the library's gradient graphs are
smaller. `DIFFERENCES` in a program names other nodes (`*` at the end stands for any rest) that differ, with the reason.

`TENSORFLEET_TF1_PYTHON` is an interpreter with TensorFlow 1.15; the interpreter that runs this has tensorfleet. Answers of
TensorFlow are kept in `target/differential` and made again when a program or this file changes. Programs run one after the other
in a few processes, each with a new default graph; one that says `OWN_PROCESS = True` gets a process of its own.
"""

import argparse
import concurrent.futures
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
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PROGRAMS = os.path.join(HERE, "programs")
#: Attributes that only say how a node came about, or that 1.15 leaves out where they have their defaults.
IGNORED_ATTRIBUTES = {"_output_shapes"}
TIMEOUT_SECONDS = 300
#: What TensorFlow makes up to tell tables and functions apart.
UNIQUE_NAME = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
UNIQUE_FUNCTION = re.compile("_[0-9]+$|(?<=^_make_dataset)_.*$")


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


def run_side(output, paths):
    """Runs programs one after the other with whatever `tensorflow` this interpreter has, or tensorfleet."""
    if os.environ.get("DIFFERENTIAL_SIDE") == "tensorfleet":
        import tensorfleet as tf
    else:
        import tensorflow as tf

        tf.logging.set_verbosity(tf.logging.ERROR)
    nodes_of.make_ndarray = tf.make_ndarray
    for path in paths:
        with open(f"{output}/{program_name(path)}.pickle", "wb") as file:
            pickle.dump(answer_of(tf, path), file, protocol=2)


def answer_of(tf, path):
    """The values that a program checks, and its graph; or how it failed."""
    values = []
    tf.reset_default_graph()
    try:
        with tempfile.TemporaryDirectory() as directory:
            os.environ["DIFFERENTIAL_DIRECTORY"] = directory
            load(path).program(tf, lambda name, value: values.append([name, plain(value)]))
            return {"values": values, "graph": nodes_of(tf.get_default_graph().as_graph_def())}
    except Exception:
        return {"error": traceback.format_exc()[-3000:]}


def program_name(path):
    return os.path.basename(path)[: -len(".py")]


def batches(paths):
    """Programs for one process each: as many as there are cores, and one for each that must be alone."""
    alone = [path for path in paths if getattr(load(path), "OWN_PROCESS", False)]
    together = [path for path in paths if path not in alone]
    count = max(1, min(os.cpu_count() or 1, len(together)))
    return [part for part in [together[index::count] for index in range(count)] if part] + [[path] for path in alone]


def ask(interpreter, side, paths):
    """The answers of one side, from other processes, by program."""
    environment = dict(os.environ, DIFFERENTIAL_SIDE=side, TF_CPP_MIN_LOG_LEVEL="3", PYTHONHASHSEED="0")
    if side == "tensorfleet":
        environment["PYTHONPATH"] = os.path.join(ROOT, "python") + os.pathsep + environment.get("PYTHONPATH", "")
    else:
        environment.pop("PYTHONPATH", None)
    answers = {}
    with tempfile.TemporaryDirectory() as output:

        def run(batch):
            command = [interpreter, "-W", "ignore", os.path.abspath(__file__), "--side", output] + batch
            limit = TIMEOUT_SECONDS + 10 * len(batch)
            try:
                done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=limit)
                return (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}")[-3000:]
            except subprocess.TimeoutExpired:
                return f"no end within {limit} s"

        parts = batches(paths)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            for batch, said in zip(parts, pool.map(run, parts)):
                for path in batch:
                    try:
                        with open(f"{output}/{program_name(path)}.pickle", "rb") as file:
                            answers[path] = pickle.load(file)
                    except (OSError, EOFError):
                        answers[path] = {"error": f"the process ended early: {said}"}
    return answers


def kept(path):
    """Where TensorFlow's answer is kept while neither the program nor this file changes."""
    with open(path, "rb") as program, open(__file__, "rb") as harness:
        key = hashlib.sha256(program.read() + harness.read()).hexdigest()[:16]
    return os.path.join(ROOT, "target", "differential", f"{program_name(path)}-{key}.pickle")


def tensorflow_answers(interpreter, paths):
    """TensorFlow's answers, kept from earlier where they can be."""
    new = [path for path in paths if not os.path.exists(kept(path))]
    if new:
        os.makedirs(os.path.dirname(kept(new[0])), exist_ok=True)
    answers = ask(interpreter, "tensorflow", new) if new else {}
    for path, answer in answers.items():
        if "error" not in answer:
            with open(kept(path) + ".new", "wb") as file:
                pickle.dump(answer, file)
            os.replace(kept(path) + ".new", kept(path))
    for path in paths:
        if path not in answers:
            with open(kept(path), "rb") as file:
                answers[path] = pickle.load(file)
    return answers


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


def compare(path, ours, theirs):
    if "error" in theirs:
        return [f"TensorFlow failed: {theirs['error']}"]
    if "error" in ours:
        return [f"tensorfleet failed: {ours['error']}"]
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
    parser.add_argument("--side", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        run_side(arguments.side[0], arguments.side[1:])
        return 0
    every = sorted(file[:-3] for file in os.listdir(PROGRAMS) if file.endswith(".py"))
    names = [name for name in every if not arguments.names or any(fnmatch.fnmatch(name, pattern) for pattern in arguments.names)]
    paths = [os.path.join(PROGRAMS, f"{name}.py") for name in names]
    interpreter = os.environ.get("TENSORFLEET_TF1_PYTHON") or os.path.join(ROOT, "target", "python", "tf1", "bin", "python")
    theirs, ours = tensorflow_answers(interpreter, paths), ask(sys.executable, "tensorfleet", paths)
    failed = 0
    for name, path in zip(names, paths):
        found = compare(path, ours[path], theirs[path])
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
