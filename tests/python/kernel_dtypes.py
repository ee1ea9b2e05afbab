"""Which dtypes TensorFlow's CPU kernels take, per op and type attribute.

    python kernel_dtypes.py | gzip -9n > ../data/kernel_dtypes.txt.gz

A line is an op and the constraints of some of its kernels: `Gather Tindices=int32 Tparams=float,double`. Types that the op
itself does not allow are left out, and so are ops without a kernel for the CPU.
"""
import collections
import itertools

from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import kernels, op_def_registry

# Types that no program of the two tiers has: quantized numbers, eight bits and less, and handles.
LEFT_OUT = ("q", "float8", "float4", "int4", "uint4", "int2", "uint2", "variant", "resource")


def allowed(op, attr):
    for declared in op.attr:
        if declared.name == attr and declared.allowed_values.list.type:
            return set(declared.allowed_values.list.type)
    return None


lines = collections.defaultdict(set)
for kernel in kernels.get_all_registered_kernels().kernel:
    op = op_def_registry.get(kernel.op)
    if kernel.device_type != "CPU" or op is None or not kernel.constraint:
        continue
    choices = []
    for constraint in sorted(kernel.constraint, key=lambda c: c.name):
        types = [t for t in constraint.allowed_values.list.type if allowed(op, constraint.name) is None or t in allowed(op, constraint.name)]
        names = [types_pb2.DataType.Name(t)[3:].lower() for t in types]
        choices.append([(constraint.name, n) for n in names if not n.startswith(LEFT_OUT)])
    for *others, (attr, dtype) in itertools.product(*choices):
        lines[" ".join([kernel.op] + ["%s=%s" % pair for pair in others] + [attr])].add(dtype)
for head, dtypes in sorted(lines.items()):
    print("%s=%s" % (head, ",".join(sorted(dtypes))))
