"""Devices by name, and device functions of programs."""

from tensorfleet.framework.export import export


@export("DeviceSpec")
class DeviceSpec:
    """A device, of which parts may be left open."""

    def __init__(self, job=None, replica=None, task=None, device_type=None, device_index=None):
        self.job = None if job is None else str(job)
        self.replica = None if replica is None else int(replica)
        self.task = None if task is None else int(task)
        if device_type is None:
            self.device_type = None
        else:
            self.device_type = device_type.upper() if device_type in ("cpu", "gpu") else str(device_type)
        self.device_index = None if device_index is None else int(device_index)

    @classmethod
    def from_string(cls, spec):
        return cls().parse_from_string(spec)

    def parse_from_string(self, spec):
        """Takes the parts that `spec` names; gives itself."""
        self.__init__()
        for part in str(spec).split("/"):
            words = part.split(":")
            if not part:
                continue
            if words[0] == "job" and len(words) == 2:
                self.job = words[1]
            elif words[0] == "replica" and len(words) == 2:
                self.replica = int(words[1])
            elif words[0] == "task" and len(words) == 2:
                self.task = int(words[1])
            elif words[0].lower() in ("cpu", "gpu") and len(words) in (1, 2):
                if self.device_type is not None:
                    raise ValueError(f"Cannot specify multiple device types: {spec}")
                self.device_type = words[0].upper()
                self.device_index = int(words[1]) if len(words) == 2 and words[1] != "*" else None
            elif words[0] == "device" and len(words) == 3:
                if self.device_type is not None:
                    raise ValueError(f"Cannot specify multiple device types: {spec}")
                self.device_type = words[1]
                self.device_index = None if words[2] == "*" else int(words[2])
            else:
                raise ValueError(f"Unknown attribute: '{words[0]}' in '{spec}'")
        return self

    def merge_from(self, dev):
        """Takes the parts that another one names."""
        for part in ("job", "replica", "task", "device_type", "device_index"):
            value = getattr(dev, part)
            if value is not None:
                setattr(self, part, value)

    def make_merged_spec(self, dev):
        merged = self.__class__(**self._parts())
        merged.merge_from(dev)
        return merged

    def replace(self, **kwargs):
        return self.__class__(**{**self._parts(), **kwargs})

    def _parts(self):
        return {name: getattr(self, name) for name in ("job", "replica", "task", "device_type", "device_index")}

    def to_string(self):
        text = "".join(f"/{name}:{getattr(self, name)}" for name in ("job", "replica", "task") if getattr(self, name) is not None)
        if self.device_type is not None:
            text += f"/device:{self.device_type}:{'*' if self.device_index is None else self.device_index}"
        return text

    def __eq__(self, other):
        return isinstance(other, DeviceSpec) and self._parts() == other._parts()

    def __hash__(self):
        return hash(tuple(self._parts().values()))

    def __str__(self):
        return self.to_string()

    def __repr__(self):
        return f"<DeviceSpec {self.to_string()}>"


def canonical_name(device):
    """A device as nodes have it."""
    if device is None:
        return ""
    if hasattr(device, "to_string"):
        return device.to_string()
    return DeviceSpec.from_string(device).to_string()


def check_valid(spec):
    DeviceSpec.from_string(spec)


class _OutputBeingBuilt:
    """What is known of the output of a variable that is being built."""

    def __init__(self, op):
        from tensorfleet.framework import dtypes
        from tensorfleet.framework.tensor_shape import TensorShape

        self.op = op
        # A handle is a scalar; so TensorFlow sees it, too.
        is_handle = op.type == "VarHandleOp"
        self.dtype = dtypes.resource if is_handle else op.get_attr("dtype")
        self.shape = TensorShape([]) if is_handle else TensorShape(op.get_attr("shape"))

    def get_shape(self):
        return self.shape


class _NodeBeingBuilt:
    """What a device function sees of the node it chooses a device for. The graph is not to be used meanwhile."""

    __slots__ = ("_view",)

    def __init__(self, view):
        self._view = view

    @property
    def name(self):
        return self._view.name

    @property
    def type(self):
        return self._view.type

    @property
    def device(self):
        return self._view.device

    @property
    def outputs(self):
        """The output of a variable, for functions that ask for its size."""
        return [_OutputBeingBuilt(self)]

    def get_attr(self, name):
        from tensorfleet.framework.operation import attr_value

        value = self._view.attr(name)
        if value is None:
            raise ValueError(f"Operation '{self.name}' has no attr named '{name}'.")
        return attr_value(value)

    @property
    def node_def(self):
        from tensorfleet.protobuf import AttrValue, NodeDef

        node = NodeDef(name=self.name, op=self.type, device=self.device)
        for name in self._view.attr_names():
            node.attr[name].CopyFrom(AttrValue.FromString(self._view.attr(name)))
        return node


def for_library(device):
    """A device scope as the library takes it: a string, `None`, one of its own setters, or a function that gives a string."""
    if device is None:
        return None
    if hasattr(device, "to_string"):
        return device.to_string()
    native = getattr(device, "_native_device_setter", None)
    if native is not None:
        return native
    if not callable(device):
        return canonical_name(device)

    def choose(view):
        chosen = device(_NodeBeingBuilt(view))
        return None if chosen is None else canonical_name(chosen)

    return choose


def merge_device(spec):
    """A device function that gives `spec` where a node's own device says nothing."""
    spec = DeviceSpec.from_string(spec or "")

    def choose(node):
        merged = DeviceSpec(**spec._parts())
        merged.merge_from(DeviceSpec.from_string(getattr(node, "device", node) or ""))
        return merged

    return choose


