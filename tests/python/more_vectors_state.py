"""More conformance cases of things that keep state: update ops, scatters, optimizers, queues, accumulators, staging areas,
tables, TensorArrays. As in `more_vectors.py`, TensorFlow says what is right.

    python more_vectors_state.py --out DIR [--only SUBSTRING]
"""
import argparse
import os
import traceback
import zlib

import numpy as np
import tensorflow.compat.v1 as tf

from sweeps import ANY, Data, I, L, S, cpu_dtypes
from vector_writer import Case, Writer

CASES = []


def case(family, name, **options):
    def wrap(build):
        CASES.append((family, name, options, build))
        return build
    return wrap


# --- update ops, by name and order of their inputs ---------------------------------------------------------------------

# Op (without Resource and Sparse), slots, scalars, attributes to vary. A slot's number is what it starts from.
DENSE = [
    ("GradientDescent", [], [("alpha", 0.1)], [{}, {"use_locking": True}]),
    ("ProximalGradientDescent", [], [("alpha", 0.1), ("l1", 0.05), ("l2", 0.1)], [{}]),
    ("Momentum", [("accum", 0.1)], [("lr", 0.1), ("momentum", 0.9)], [{}, {"use_nesterov": True}]),
    ("KerasMomentum", [("accum", 0.1)], [("lr", 0.1), ("momentum", 0.9)], [{}, {"use_nesterov": True}]),
    ("Adagrad", [("accum", 0.5)], [("lr", 0.3)], [{}, {"update_slots": False}]),
    ("AdagradV2", [("accum", 0.5)], [("lr", 0.3), ("epsilon", 1e-3)], [{}]),
    ("ProximalAdagrad", [("accum", 0.5)], [("lr", 0.3), ("l1", 0.05), ("l2", 0.1)], [{}]),
    ("Adadelta", [("accum", 0.2), ("accum_update", 0.1)], [("lr", 1.0), ("rho", 0.9), ("epsilon", 1e-3)], [{}]),
    ("AdagradDA", [("gradient_accumulator", 0.1), ("gradient_squared_accumulator", 0.2)], [("lr", 0.3), ("l1", 0.01), ("l2", 0.1), ("global_step", 3)], [{}]),
    ("Adam", [("m", 0.1), ("v", 0.2)], [("beta1_power", 0.81), ("beta2_power", 0.998), ("lr", 0.01), ("beta1", 0.9), ("beta2", 0.999), ("epsilon", 1e-4)], [{}, {"use_nesterov": True}]),
    ("AdaMax", [("m", 0.1), ("v", 0.2)], [("beta1_power", 0.81), ("lr", 0.01), ("beta1", 0.9), ("beta2", 0.999), ("epsilon", 1e-4)], [{}]),
    ("RMSProp", [("ms", 0.5), ("mom", 0.1)], [("lr", 0.01), ("rho", 0.9), ("momentum", 0.5), ("epsilon", 1e-2)], [{}]),
    ("CenteredRMSProp", [("mg", 0.01), ("ms", 0.5), ("mom", 0.1)], [("lr", 0.01), ("rho", 0.9), ("momentum", 0.5), ("epsilon", 1e-2)], [{}]),
    ("Ftrl", [("accum", 0.3), ("linear", 0.1)], [("lr", 0.1), ("l1", 0.05), ("l2", 0.01), ("lr_power", -0.5)], [{}, {"multiply_linear_by_lr": True}]),
    ("FtrlV2", [("accum", 0.3), ("linear", 0.1)], [("lr", 0.1), ("l1", 0.05), ("l2", 0.01), ("l2_shrinkage", 0.1), ("lr_power", -0.7)], [{}]),
    ("AddSign", [("m", 0.1)], [("lr", 0.1), ("alpha", 1.0), ("sign_decay", 0.9), ("beta", 0.8)], [{}]),
    ("PowerSign", [("m", 0.1)], [("lr", 0.1), ("logbase", 1.0), ("sign_decay", 0.9), ("beta", 0.8)], [{}]),
]
SCALARS_AFTER_GRADIENT = {"AdagradDA", "Ftrl", "FtrlV2", "ProximalGradientDescent", "GradientDescent"}


def variables(c, dtype, names, shape, resource, starts):
    made = []
    for name, start in zip(names, starts):
        value = (np.arange(1, 1 + int(np.prod(shape))).reshape(shape) * 0.1 + start).astype(tf.as_dtype(dtype).as_numpy_dtype)
        made.append(tf.Variable(value, name=name, use_resource=resource))
    c.run(targets=[v.initializer for v in made])
    return made


def updates(rule, slots, scalars, attributes, resource, sparse, dtype):
    op = ("Resource" if resource else "") + ("Sparse" if sparse else "") + "Apply" + rule
    if not hasattr(tf.raw_ops, op) or dtype not in cpu_dtypes(op):
        return
    name = "%s_%s" % (op, dtype)
    gradient = "delta" if rule in ("GradientDescent", "ProximalGradientDescent") and not sparse else "grad"
    @case("optimizers", name, tolerance=5.0, resource=resource)
    def build(c):
        for n, attrs in enumerate(attributes):
            d = Data(dtype, n)
            shapes = [(4, 2), (3,), ()] if not sparse else [(4, 2), (5, 1)]
            if n == 0 and not sparse:
                shapes.append((0, 2))
            for shape in shapes:
                made = variables(c, dtype, ["var"] + [s for s, _ in slots], shape, resource, [1.0] + [s for _, s in slots])
                handles = [v.handle if resource else v._ref() for v in made]
                arguments = dict(zip(["var"] + [s for s, _ in slots], handles))
                for s, value in scalars:
                    arguments[s] = c.feed(np.int64(value) if s == "global_step" else np.array(value, tf.as_dtype(dtype).as_numpy_dtype))
                arguments.update(attrs)
                for kind in ("good", "again", "wrong") if not sparse else ("int32", "int64", "repeated", "none", "outside", "negative", "wrong"):
                    rows = {"repeated": [1, 1, 0], "none": [], "outside": [0, 9], "negative": [-1]}.get(kind, [2, 0])
                    if sparse:
                        arguments["indices"] = c.feed((L if kind == "int64" else I)(*rows))
                        arguments[gradient] = c.feed(d(len(rows), *shape[1:], lo=-1, hi=1) if kind != "wrong" else d(len(rows), 7))
                    else:
                        arguments[gradient] = c.feed(d(*shape, lo=-1, hi=1) if kind != "wrong" else d(7))
                    try:
                        node = getattr(tf.raw_ops, op)(**arguments)
                    except (ValueError, TypeError):
                        continue
                    c.run(targets=[node])
                    # A sparse update that fails has changed some rows in TensorFlow, and none here.
                    if sparse and kind in ("outside", "negative"):
                        c.run(targets=[v.initializer for v in made])
                    c.run([v.value() for v in made])
                # A scalar that is no scalar.
                first = scalars[0][0]
                bad = dict(arguments)
                bad[first] = c.feed(np.array([1, 2], tf.as_dtype(dtype).as_numpy_dtype))
                if kind == "wrong" and not sparse:
                    bad[gradient] = c.feed(d(*shape))
                try:
                    c.run(targets=[getattr(tf.raw_ops, op)(**bad)])
                except (ValueError, TypeError):
                    pass
    build.__doc__ = name


for rule_, slots_, scalars_, attributes_ in DENSE:
    for resource_ in (False, True):
        for sparse_ in (False, True):
            for dtype_ in ("float16", "bfloat16", "float32", "float64", "complex64", "int32"):
                updates(rule_, slots_, scalars_, attributes_, resource_, sparse_, dtype_)


# --- scatters ------------------------------------------------------------------------------------------------------------

def scatters(op, dtype, resource):
    @case("embedding_sparse", "%s_%s" % (op, dtype), tolerance=2.0, resource=resource)
    def build(c):
        d = Data(dtype, 5)
        value = d(5, 2, lo=1)
        v = tf.Variable(value, name="v", use_resource=resource)
        c.run(targets=[v.initializer])
        handle = {"resource": v.handle} if resource else {"ref": v._ref()}
        nd = "Nd" in op
        if nd and resource:
            handle = {"ref": v.handle}
        for maker in (I, L):
            for rows, shape in (([0, 3], (2, 2)), ([1, 1], (2, 2)), ([], (0, 2)), ([4], (1, 2)), ([5], (1, 2)), ([-1], (1, 2)), ([0], (3,)), ([2, 4], ())):
                if nd and shape == ():
                    continue
                ids = maker(*rows).reshape(-1, 1) if nd else maker(*rows)
                try:
                    node = getattr(tf.raw_ops, op)(indices=c.feed(ids), updates=c.feed(d(*shape, lo=1)), **handle)
                except (ValueError, TypeError):
                    continue
                if not resource and hasattr(node, "dtype"):
                    c.run(targets=[node.op])
                else:
                    c.run(targets=[node])
                c.run([v.value()])
        if nd:
            node = getattr(tf.raw_ops, op)(indices=c.feed(I(0, 1, 3, 0).reshape(2, 2)), updates=c.feed(d(2, lo=1)), **handle)
            c.run(targets=[node])
            c.run([v.value()])


for kind_ in "Update Add Sub Mul Div Min Max".split():
    for op_, resource_ in (("Scatter" + kind_, False), ("ResourceScatter" + kind_, True), ("ScatterNd" + kind_, False), ("ResourceScatterNd" + kind_, True)):
        if hasattr(tf.raw_ops, op_):
            for dtype_ in cpu_dtypes(op_, "dtype" if op_.startswith("ResourceScatter") and "Nd" not in op_ else "T"):
                scatters(op_, dtype_, resource_)


# --- variables -----------------------------------------------------------------------------------------------------------

def variable_ops(dtype, resource):
    @case("variables", "all_ops_%s_%s" % ("resource" if resource else "ref", dtype), tier=1, resource=resource)
    def build(c):
        d = Data(dtype, 6)
        v = tf.Variable(d(2, 3), name="v", use_resource=resource, validate_shape=True)
        loose = tf.Variable(d(2), name="loose", use_resource=resource, validate_shape=False)
        c.run([tf.is_variable_initialized(v)])
        c.run([v.value()])
        c.run(targets=[v.initializer, loose.initializer])
        c.run([v.value(), loose.value(), tf.is_variable_initialized(v)])
        for name, shape in (("assign", (2, 3)), ("assign_add", (2, 3)), ("assign_sub", (2, 3)), ("assign", (3, 2)), ("assign_add", (3,)), ("assign_sub", ())):
            if name != "assign" and dtype in ("bool", "string"):
                continue
            try:
                value = c.feed(d(*shape))
                node = getattr(tf, name)(v, value) if not resource else {"assign": tf.raw_ops.AssignVariableOp, "assign_add": tf.raw_ops.AssignAddVariableOp, "assign_sub": tf.raw_ops.AssignSubVariableOp}[name](resource=v.handle, value=value)
            except (ValueError, TypeError):
                continue
            c.run(targets=[node if isinstance(node, tf.Operation) else node.op])
            c.run([v.value()])
        if not resource:
            c.run([tf.assign(loose, c.feed(d(4, 1)), validate_shape=False)])
            c.run([loose.value()])
            if dtype in ("int32", "int64"):
                n = tf.Variable(d.array(3), name="n")
                c.run(targets=[n.initializer])
                up = tf.raw_ops.CountUpTo(ref=n._ref(), limit=5)
                for _ in range(3):
                    c.run([up])
        else:
            c.run([tf.raw_ops.VariableShape(input=v.handle), tf.raw_ops.VariableShape(input=v.handle, out_type=tf.int64)])
            c.run([tf.raw_ops.ResourceGather(resource=v.handle, indices=c.feed(L(1, 0)), dtype=v.dtype)])
            c.run([tf.raw_ops.ResourceGather(resource=v.handle, indices=c.feed(I(2)), dtype=v.dtype)])
            if dtype in ("int32", "int64"):
                n = tf.Variable(d.array(3), name="n", use_resource=True)
                c.run(targets=[n.initializer])
                up = tf.raw_ops.ResourceCountUpTo(resource=n.handle, limit=5, T=n.dtype)
                for _ in range(3):
                    c.run([up])


for dtype_ in ANY:
    variable_ops(dtype_, False)
    variable_ops(dtype_, True)


# --- optimizers as programs use them -------------------------------------------------------------------------------------

OPTIMIZERS = {
    "sgd": lambda s: tf.train.GradientDescentOptimizer(0.1), "adagrad": lambda s: tf.train.AdagradOptimizer(0.8, 0.2),
    "adam": lambda s: tf.train.AdamOptimizer(0.02, 0.85, 0.99, 1e-4), "momentum": lambda s: tf.train.MomentumOptimizer(0.1, 0.8),
    "nesterov": lambda s: tf.train.MomentumOptimizer(0.1, 0.8, use_nesterov=True),
    "rmsprop": lambda s: tf.train.RMSPropOptimizer(0.02, 0.8, 0.3, 1e-3), "centered": lambda s: tf.train.RMSPropOptimizer(0.02, 0.8, 0.3, 1e-2, centered=True),
    "ftrl": lambda s: tf.train.FtrlOptimizer(0.2, -0.6, 0.3, 0.02, 0.03), "ftrl_shrinkage": lambda s: tf.train.FtrlOptimizer(0.2, l2_shrinkage_regularization_strength=0.2),
    "adadelta": lambda s: tf.train.AdadeltaOptimizer(0.9, 0.8, 1e-3), "proximal_sgd": lambda s: tf.train.ProximalGradientDescentOptimizer(0.2, 0.1, 0.05),
    "proximal_adagrad": lambda s: tf.train.ProximalAdagradOptimizer(0.2, 0.2, 0.1, 0.05), "adagrad_da": lambda s: tf.train.AdagradDAOptimizer(0.2, s, 0.2, 0.02, 0.05),
}


def optimizer(name, resource, sparse, dtype, index):
    @case("optimizers", "loop_%s_%s_%s_%s_%s" % (name, "resource" if resource else "ref", "sparse" if sparse else "dense", dtype, index), tolerance=5.0, resource=resource)
    def build(c):
        d = Data(dtype, len(name))
        w = tf.Variable(d(6, 2, lo=-1, hi=1), name="w", use_resource=resource)
        step = tf.train.get_or_create_global_step()
        g = tf.placeholder(dtype, [None, 2])
        ids = tf.placeholder(index, [None])
        grad = tf.IndexedSlices(g, ids, tf.constant([6, 2], tf.int64)) if sparse else g
        train = OPTIMIZERS[name](step).apply_gradients([(grad, w)], global_step=step)
        reads = [v.value() for v in tf.global_variables()]
        c.run(targets=[tf.global_variables_initializer()])
        for rows in ([0, 5], [2, 2, 1], [], [4, 0, 4, 4, 3]):
            feed = {g: d(len(rows) if sparse else 6, 2, lo=-1, hi=1)}
            if sparse:
                feed[ids] = np.array(rows, index)
            c.run(targets=[train], feed=feed)
            c.run(reads)


for name_ in OPTIMIZERS:
    for resource_ in (False, True):
        for dtype_ in ("float16", "float32", "float64"):
            optimizer(name_, resource_, False, dtype_, "int32")
            for index_ in ("int32", "int64"):
                optimizer(name_, resource_, True, dtype_, index_)


# --- accumulators --------------------------------------------------------------------------------------------------------

def accumulator(kind, dtype, reduction):
    @case("accumulators", "%s_%s_%s" % (kind, reduction.lower(), dtype), tier=1, tolerance=3.0)
    def build(c):
        d = Data(dtype, 9)
        dt = tf.as_dtype(dtype)
        if kind == "resource":
            a = tf.raw_ops.ResourceConditionalAccumulator(dtype=dt, shape=[2, 2], reduction_type=reduction)
            ops = tf.raw_ops.ResourceAccumulatorApplyGradient, tf.raw_ops.ResourceAccumulatorTakeGradient, tf.raw_ops.ResourceAccumulatorNumAccumulated, tf.raw_ops.ResourceAccumulatorSetGlobalStep
        else:
            a = tf.raw_ops.ConditionalAccumulator(dtype=dt, shape=[2, 2], reduction_type=reduction)
            ops = tf.raw_ops.AccumulatorApplyGradient, tf.raw_ops.AccumulatorTakeGradient, tf.raw_ops.AccumulatorNumAccumulated, tf.raw_ops.AccumulatorSetGlobalStep
        g, at, n, step = tf.placeholder(dt, None), tf.placeholder(tf.int64, None), tf.placeholder(tf.int32, None), tf.placeholder(tf.int64, None)
        put, take, count, move = ops[0](handle=a, local_step=at, gradient=g), ops[1](handle=a, num_required=n, dtype=dt), ops[2](handle=a), ops[3](handle=a, new_global_step=step)
        for shape, local in (((2, 2), 0), ((2, 2), 0), ((2, 2), -1), ((3, 2), 0), ((4,), 0)):
            c.run(targets=[put], feed={g: d(*shape), at: np.int64(local)})
            c.run([count])
        c.run([take], feed={n: np.int32(0)})
        c.run([take], feed={n: np.int32(-1)})
        c.run([take], feed={n: np.int32(2)})
        c.run([count])
        c.run(targets=[put], feed={g: d(2, 2), at: np.int64(0)})
        c.run(targets=[put], feed={g: d(2, 2), at: np.int64(1)})
        c.run(targets=[put], feed={g: d(2, 2), at: np.int64(5)})
        c.run([count])
        c.run(targets=[move], feed={step: np.int64(6)})
        c.run([take], feed={n: np.int32(1)})
        c.run(targets=[put], feed={g: d(2, 2), at: np.int64(6)})
        c.run([count])
        c.run([take], feed={n: np.int32(1)}, timeout_ms=600)
        c.run(targets=[put], feed={g: d(2, 2), at: np.int64(9)})
        c.run([take], feed={n: np.int32(1)})


def sparse_accumulator(dtype, reduction):
    @case("accumulators", "sparse_%s_%s" % (reduction.lower(), dtype), tolerance=3.0)
    def build(c):
        d = Data(dtype, 9)
        dt = tf.as_dtype(dtype)
        a = tf.raw_ops.SparseConditionalAccumulator(dtype=dt, shape=[None, 2], reduction_type=reduction)
        ids, g, shape, at, n = tf.placeholder(tf.int64, None), tf.placeholder(dt, None), tf.placeholder(tf.int64, None), tf.placeholder(tf.int64, None), tf.placeholder(tf.int32, None)
        for known in (True, False):
            put = tf.raw_ops.SparseAccumulatorApplyGradient(handle=a, local_step=at, gradient_indices=ids, gradient_values=g, gradient_shape=shape, has_known_shape=known)
            take = list(tf.raw_ops.SparseAccumulatorTakeGradient(handle=a, num_required=n, dtype=dt))
            count = tf.raw_ops.AccumulatorNumAccumulated(handle=a)
            for rows in ([0, 3], [1, 3, 5], [3], [2, 1], []):
                c.run(targets=[put], feed={ids: L(*rows), g: d(len(rows), 2), shape: L(6, 2), at: np.int64(3)})
                c.run([count])
            c.run(take, feed={n: np.int32(1)})
            for rows, vals, dense in (([0], (2, 2), (6, 2)), ([0], (1, 3), (6, 2)), ([9], (1, 2), (6, 2)), ([-1], (1, 2), (6, 2)), ([0], (1, 2), (6,)), ([0], (1, 2), (6, 3)), ([0, 0], (2, 2), (6, 2)), ([[0]], (1, 2), (6, 2))):
                c.run(targets=[put], feed={ids: np.array(rows, np.int64), g: d(*vals), shape: L(*dense), at: np.int64(4)})
                c.run([count])
            c.run(targets=[put], feed={ids: L(1), g: d(1, 2), shape: L(6, 2), at: np.int64(9)})
            c.run(take, feed={n: np.int32(1)})


for reduction_ in ("MEAN", "SUM"):
    for dtype_ in ("float16", "float32", "float64", "bfloat16"):
        for kind_ in ("ref", "resource"):
            op_ = "ConditionalAccumulator" if kind_ == "ref" else "ResourceConditionalAccumulator"
            if dtype_ in cpu_dtypes(op_, "dtype"):
                accumulator(kind_, dtype_, reduction_)
        if dtype_ in cpu_dtypes("SparseConditionalAccumulator", "dtype"):
            sparse_accumulator(dtype_, reduction_)


# --- queues, stages, stacks, TensorArrays, tables ------------------------------------------------------------------------

def queue_of(kind, capacity, dtypes, shapes, shared):
    if kind == "fifo":
        return tf.raw_ops.FIFOQueueV2(component_types=dtypes, shapes=shapes, capacity=capacity, shared_name=shared)
    if kind == "padding":
        return tf.raw_ops.PaddingFIFOQueueV2(component_types=dtypes, shapes=shapes, capacity=capacity, shared_name=shared)
    if kind == "shuffle":
        return tf.raw_ops.RandomShuffleQueueV2(component_types=dtypes, shapes=shapes, capacity=capacity, shared_name=shared, min_after_dequeue=0, seed=3, seed2=4)
    if kind == "priority":
        return tf.raw_ops.PriorityQueueV2(component_types=dtypes[1:], shapes=shapes, capacity=capacity, shared_name=shared)
    return tf.raw_ops.FIFOQueue(component_types=dtypes, shapes=shapes, capacity=capacity, shared_name=shared)


def queue_events(kind, events, number):
    @case("queues", "%s_events_%d" % (kind, number), tier=1 if kind == "fifo" else 2)
    def build(c):
        dtypes = [tf.int64, tf.float32]
        q = queue_of(kind, 3, dtypes, [[], [2]] if kind != "priority" else [[], [2]], "q%d" % number)
        suffix = "" if kind == "old" else "V2"
        raw = lambda name: getattr(tf.raw_ops, name + suffix)
        x, y, xs, ys, n = (tf.placeholder(t, None) for t in (tf.int64, tf.float32, tf.int64, tf.float32, tf.int32))
        put = raw("QueueEnqueue")(handle=q, components=[x, y])
        puts = raw("QueueEnqueueMany")(handle=q, components=[xs, ys])
        get = list(raw("QueueDequeue")(handle=q, component_types=dtypes))
        gets = list(raw("QueueDequeueMany")(handle=q, n=n, component_types=dtypes))
        upto = list(raw("QueueDequeueUpTo")(handle=q, n=n, component_types=dtypes))
        size, close, cancel = raw("QueueSize")(handle=q), raw("QueueClose")(handle=q), raw("QueueClose")(handle=q, cancel_pending_enqueues=True)
        closed = tf.raw_ops.QueueIsClosedV2(handle=q) if suffix else tf.raw_ops.QueueIsClosed(handle=q)
        d = Data("float32", number)
        counter = [10]
        for event in events.split():
            background = None
            session = "s0"
            if event[0] == "&":
                background, event, session = "b%d" % counter[0], event[1:], "t%d" % counter[0]
                build.tags = getattr(build, "tags", []) + [background]
            word, _, argument = event.partition(":")
            k = int(argument or 1)
            counter[0] += 1
            common = dict(background=background, session=session)
            if word == "put":
                c.run(targets=[put], feed={x: np.int64(counter[0]), y: d(2)}, **common)
            elif word == "bad":
                c.run(targets=[put], feed={x: np.int64(counter[0]), y: d(3)}, **common)
            elif word == "puts":
                c.run(targets=[puts], feed={xs: np.arange(k, dtype=np.int64) + 100 - counter[0], ys: d(k, 2)}, **common)
            elif word == "get":
                c.run(get, **common)
            elif word == "gets":
                c.run(gets, feed={n: np.int32(k)}, **common)
            elif word == "upto":
                c.run(upto, feed={n: np.int32(k)}, **common)
            elif word == "size":
                c.run([size], **common)
            elif word == "closed":
                c.run([closed], **common)
            elif word == "close":
                c.run(targets=[close], **common)
            elif word == "cancel":
                c.run(targets=[cancel], **common)
            elif word == "timeout":
                c.run(get, timeout_ms=500)
            elif word == "timeouts":
                c.run(gets, feed={n: np.int32(k)}, timeout_ms=500)
            elif word == "timeoutput":
                c.run(targets=[puts], feed={xs: np.arange(k, dtype=np.int64), ys: d(k, 2)}, timeout_ms=500)
            elif word == "join":
                c.join(build.tags.pop(0))
            elif word == "drop":
                c.close("t%d" % int(build.tags[0][1:]))


EVENTS = [
    "put put size get get size", "puts:3 gets:2 size gets:1 upto:0 gets:0 size", "puts:2 close closed get put size get get close size closed", "puts:2 close gets:3 size gets:2 gets:0 upto:2",
    "puts:2 close upto:3 upto:1 size", "&get put join size", "&gets:3 put size put put join size", "&gets:2 put &get put join put join size", "puts:3 &put get join size get get get size",
    "puts:3 &puts:2 gets:2 size gets:2 join size", "&get close join put", "&gets:2 put close join size get", "&upto:2 put close join size", "puts:3 &put cancel join size closed get", "puts:3 &put &close get join join size gets:3 get",
    "puts:2 &puts:3 cancel join size gets:3", "puts:3 &puts:2 &close gets:3 gets:2 join join get size", "timeout put get", "puts:3 timeoutput:2 size gets:3", "timeoutput:5 size gets:3 size",
    "bad size put get", "puts:0 size", "gets:-1 upto:-1", "&gets:2 drop join put put size gets:2", "&get &get put join put join size", "close close cancel closed", "puts:2 &gets:3 &get put join size put join size", "&gets:4 puts:3 size put join size",
    "&upto:3 put put put join size",
]
for kind_ in ("fifo", "old", "padding", "priority"):
    for number_, events_ in enumerate(EVENTS):
        if kind_ == "fifo" or number_ % 3 == len(kind_) % 3:
            queue_events(kind_, events_, number_)


@case("queues", "padding_shapes")
def _(c):
    q = tf.raw_ops.PaddingFIFOQueueV2(component_types=[tf.float32, tf.string], shapes=[[None, 2], [None]], capacity=9)
    x, y, n = tf.placeholder(tf.float32, None), tf.placeholder(tf.string, None), tf.placeholder(tf.int32, None)
    put = tf.raw_ops.QueueEnqueueV2(handle=q, components=[x, y])
    get = list(tf.raw_ops.QueueDequeueManyV2(handle=q, n=n, component_types=[tf.float32, tf.string]))
    one = list(tf.raw_ops.QueueDequeueV2(handle=q, component_types=[tf.float32, tf.string]))
    d = Data("float32", 1)
    for rows, words in ((1, [b"a"]), (3, []), (0, [b"b", b"c"]), (2, [b"d"])):
        c.run(targets=[put], feed={x: d(rows, 2), y: S(*words)})
    c.run(targets=[put], feed={x: d(1, 3), y: S()})
    c.run(targets=[put], feed={x: d(2), y: S()})
    c.run(one)
    c.run(get, feed={n: np.int32(2)})
    c.run(get, feed={n: np.int32(1)})


@case("queues", "priority_order")
def _(c):
    q = tf.PriorityQueue(20, [tf.string], [[]])
    p, s = tf.placeholder(tf.int64, None), tf.placeholder(tf.string, None)
    put = q.enqueue_many([p, s])
    c.run(targets=[put], feed={p: L(5, -1, 3, 6, 0), s: S(b"e", b"a", b"c", b"f", b"b")})
    c.run(list(q.dequeue_many(4)))
    c.run([q.size()])


@case("queues", "component_types")
def _(c):
    for dtype in ANY:
        d = Data(dtype, 2)
        q = tf.FIFOQueue(9, [dtype], [[2]])
        c.run(targets=[q.enqueue_many([c.feed(d(3, 2))])])
        c.run([q.dequeue()])
        c.run([q.dequeue_many(2)])
    q = tf.FIFOQueue(9, [tf.float32])
    wrong = tf.raw_ops.QueueEnqueueV2(handle=q.queue_ref, components=[c.feed(L(1))])
    c.run(targets=[wrong])
    c.run([tf.raw_ops.QueueDequeueV2(handle=q.queue_ref, component_types=[tf.int32])[0]])
    c.run([tf.raw_ops.QueueDequeueV2(handle=q.queue_ref, component_types=[tf.float32, tf.float32])[0]])


@case("queues", "redefined")
def _(c):
    a = tf.raw_ops.FIFOQueueV2(component_types=[tf.float32], shapes=[[]], capacity=3, shared_name="same")
    c.run([tf.raw_ops.QueueSizeV2(handle=a)])
    for types, shapes, capacity in (([tf.int32], [[]], 3), ([tf.float32], [[2]], 3), ([tf.float32], [[]], 4), ([tf.float32], [], 3)):
        b = tf.raw_ops.FIFOQueueV2(component_types=types, shapes=shapes, capacity=capacity, shared_name="same")
        c.run([tf.raw_ops.QueueSizeV2(handle=b)])
    b = tf.raw_ops.RandomShuffleQueueV2(component_types=[tf.float32], shapes=[[]], capacity=3, shared_name="same")
    c.run([tf.raw_ops.QueueSizeV2(handle=b)])


@case("queues", "staging")
def _(c):
    d = Data("float32", 3)
    area = dict(dtypes=[tf.float32, tf.int32], capacity=2)
    put = tf.raw_ops.Stage(values=[c.feed(d(2)), c.feed(I(4))], capacity=2)
    get, size, clear = tf.raw_ops.Unstage(**area), tf.raw_ops.StageSize(**area), tf.raw_ops.StageClear(**area)
    peek = tf.raw_ops.StagePeek(index=c.feed(np.int32(0)), **area)
    c.run([size])
    c.run(targets=[put])
    c.run(list(peek))
    c.run(targets=[put])
    c.run([size])
    c.run(list(get))
    c.run(targets=[clear])
    c.run([size])


@case("control_flow", "stacks")
def _(c):
    for dtype in ("float32", "string", "int64", "bool", "float16"):
        d = Data(dtype, 2)
        s = tf.raw_ops.StackV2(max_size=np.int32(2), elem_type=tf.as_dtype(dtype), stack_name="st" + dtype)
        push = tf.raw_ops.StackPushV2(handle=s, elem=c.feed(d(2)))
        with tf.control_dependencies([push]):
            pop = tf.raw_ops.StackPopV2(handle=s, elem_type=tf.as_dtype(dtype))
        c.run([pop])
        empty = tf.raw_ops.StackPopV2(handle=s, elem_type=tf.as_dtype(dtype))
        c.run([empty])
        with tf.control_dependencies([push]):
            again = tf.raw_ops.StackPushV2(handle=s, elem=c.feed(d(3)))
        with tf.control_dependencies([again]):
            c.run([tf.raw_ops.StackPushV2(handle=s, elem=c.feed(d(3)))])


def tensor_arrays(dtype):
    @case("control_flow", "tensor_array_" + dtype)
    def build(c):
        d = Data(dtype, 2)
        def array(size=3, **kw):
            return tf.TensorArray(dtype, size=size, infer_shape=False, **kw)
        a = array().write(0, c.feed(d(2))).write(2, c.feed(d(2)))
        c.run([a.read(0)])
        c.run([a.read(1)])
        c.run([a.stack()])
        c.run([a.size()])
        c.run([array().unstack(c.feed(d(3, 2))).stack()])
        c.run([array().unstack(c.feed(d(4, 2))).stack()])
        c.run([array(dynamic_size=True).unstack(c.feed(d(4, 2))).concat()])
        c.run([array().unstack(c.feed(d(3, 2))).gather(c.feed(I(2, 0)))])
        c.run([array().unstack(c.feed(d(3, 2))).gather(c.feed(I(3)))])
        c.run([array().scatter(c.feed(I(2, 0, 1)), c.feed(d(3, 2))).concat()])
        c.run([array().split(c.feed(d(5, 2)), c.feed(L(2, 0, 3))).concat()])
        c.run([array().split(c.feed(d(5, 2)), c.feed(L(2, 0, 4))).concat()])
        c.run([array().split(c.feed(d(5, 2)), c.feed(L(2, 0, 3))).read(2)])
        c.run([array().write(3, c.feed(d(1))).size()])
        c.run([array().write(-1, c.feed(d(1))).size()])
        c.run([array(dynamic_size=True).write(5, c.feed(d(1))).size()])
        b = array().write(0, c.feed(d(1)))
        c.run([b.write(0, c.feed(d(1))).size()])
        c.run([array(clear_after_read=True).write(0, c.feed(d(1))).read(0)])
        c.run([array(size=0).stack()])
        once = array().write(1, c.feed(d(1)))
        first = once.read(1)
        with tf.control_dependencies([first]):
            c.run([once.read(1)])
        c.run([array().write(0, c.feed(d(1))).write(1, c.feed(d(2))).write(2, c.feed(d(1))).stack()])
        c.run([array().write(0, c.feed(d(1))).write(1, c.feed(d(2))).write(2, c.feed(d(1))).concat()])


for dtype_ in ANY:
    tensor_arrays(dtype_)


def tables(key, value):
    @case("embedding_sparse", "tables_%s_%s" % (key, value))
    def build(c):
        k, v = Data(key, 1), Data(value, 2)
        keys = k.array([1, 5, 9]) if key != "string" else S(b"a", b"b", b"c")
        missing = k.array([5, 77]) if key != "string" else S(b"b", b"zz")
        kt, vt = tf.as_dtype(key), tf.as_dtype(value)
        for make in (tf.raw_ops.HashTableV2, tf.raw_ops.MutableHashTableV2):
            t = make(key_dtype=kt, value_dtype=vt)
            values = v(3)
            find = tf.raw_ops.LookupTableFindV2(table_handle=t, keys=c.feed(missing), default_value=c.feed(v()))
            size = tf.raw_ops.LookupTableSizeV2(table_handle=t)
            dump = list(tf.raw_ops.LookupTableExportV2(table_handle=t, Tkeys=kt, Tvalues=vt))
            c.run([find])
            c.run([size])
            c.run(targets=[tf.raw_ops.LookupTableImportV2(table_handle=t, keys=c.feed(keys[:1]), values=c.feed(values[:1]))])
            c.run([find])
            c.run([size])
            c.run(dump)
            c.run(targets=[tf.raw_ops.LookupTableImportV2(table_handle=t, keys=c.feed(keys), values=c.feed(v(3)))])
            c.run([size])
            c.run(targets=[tf.raw_ops.LookupTableInsertV2(table_handle=t, keys=c.feed(keys), values=c.feed(values))])
            c.run([size])
            c.run([find])
            c.run(targets=[tf.raw_ops.LookupTableRemoveV2(table_handle=t, keys=c.feed(keys[:1]))])
            c.run([size])
            c.run(targets=[tf.raw_ops.LookupTableInsertV2(table_handle=t, keys=c.feed(keys), values=c.feed(v(2)))])
            c.run([tf.raw_ops.LookupTableFindV2(table_handle=t, keys=c.feed(missing.reshape(2, 1)), default_value=c.feed(v(1)))])


for key_, value_ in (("string", "int64"), ("int64", "string"), ("string", "float32"), ("int64", "float32"), ("int64", "int64"), ("int32", "float32"), ("string", "string"), ("string", "int32"), ("int32", "int32"),
                     ("string", "bool"), ("string", "float64"), ("int64", "float64"), ("int64", "int32"), ("float32", "int64"), ("float64", "float64"), ("int32", "string"), ("int32", "float64"), ("int64", "bool"), ("string", "float16")):
    tables(key_, value_)


# Cases that once told a difference; they are always packed.
KEPT = ("sparse_mean_float", "tables_int64_float32")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--resume", action="store_true", help="leave cases alone that are there")
    parser.add_argument("--few", action="store_true", help="every eighth case: what is packed")
    options = parser.parse_args()
    writer = Writer(options.out)
    written = 0
    for family, name, settings, build in CASES:
        if options.only not in family + "/" + name:
            continue
        if options.few and not name.startswith(KEPT) and zlib.crc32(name.encode()) % 8:
            continue
        if options.resume and os.path.exists(os.path.join(options.out, family, name)):
            continue
        c = Case(family, name, settings.get("tier", 2), settings.get("tolerance", 1.0), True, settings.get("resource", False))
        try:
            with c.graph.as_default():
                (tf.enable_resource_variables if c.resource else tf.disable_resource_variables)()
                build(c)
            tf.disable_resource_variables()
            if len(c.steps) > 1:
                writer.write(c)
                written += 1
        except Exception:
            print("failed", family, name)
            traceback.print_exc(limit=4)
    print(written, "cases")


if __name__ == "__main__":
    main()
