"""`tf.contrib.training.HParams`: hyperparameters with types, from keywords, text or JSON."""

import json
import re

from tensorfleet.framework.export import export


def _parsed(text, kind, name):
    """A value of a type from text."""
    text = text.strip()
    try:
        if kind is bool:
            if text not in ("true", "True", "1", "false", "False", "0"):
                raise ValueError
            return text in ("true", "True", "1")
        if kind is str:
            return text
        return kind(text)
    except ValueError:
        raise ValueError(f"Could not parse hparam '{name}' of type '{kind.__name__}' with value '{text}'") from None


def _cast(name, kind, value):
    """A value as a type, if nothing is lost."""
    if kind is type(None) or value is None or isinstance(value, kind) and isinstance(value, bool) == (kind is bool):
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is int and isinstance(value, float) and value == int(value):
        return int(value)
    if kind is str and isinstance(value, bytes):
        return value.decode()
    raise ValueError(f"Could not cast hparam '{name}' of type '{kind}' from value {value!r}")


@export("contrib.training.HParams")
class HParams:
    """Hyperparameters as attributes."""

    _HAS_DYNAMIC_ATTRIBUTES = True

    def __init__(self, hparam_def=None, model_structure=None, **kwargs):
        if hparam_def is not None:
            raise NotImplementedError("HParams from HParamDef messages")
        self._hparam_types = {}
        self._model_structure = model_structure
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name, value):
        """Adds a parameter; its type is that of the value."""
        if getattr(self, name, None) is not None:
            raise ValueError(f"Hyperparameter name is reserved: {name}")
        if isinstance(value, (list, tuple)):
            if not value:
                raise ValueError(f"Multi-valued hyperparameters cannot be empty: {name}")
            self._hparam_types[name] = (type(value[0]), True)
        else:
            self._hparam_types[name] = (type(value), False)
        setattr(self, name, value)

    def set_hparam(self, name, value):
        """Sets a parameter that is there."""
        kind, is_list = self._hparam_types[name]
        if isinstance(value, list):
            if not is_list:
                raise ValueError(f"Must not pass a list for single-valued parameter: {name}")
            setattr(self, name, [_cast(name, kind, item) for item in value])
        else:
            if is_list:
                raise ValueError(f"Must pass a list for multi-valued parameter: {name}.")
            setattr(self, name, _cast(name, kind, value))

    def del_hparam(self, name):
        if hasattr(self, name):
            delattr(self, name)
            del self._hparam_types[name]

    def parse(self, values):
        """Sets parameters from text such as `rate=0.1,sizes=[1,2],sizes[0]=3`."""
        position, pattern = 0, re.compile(r"\s*(?P<name>[a-zA-Z][\w.]*)(?:\[(?P<index>\d+)\])?\s*=\s*(?:\[(?P<list>[^\]]*)\]|(?P<value>[^,\[]*))\s*(?:,|$)")
        while position < len(values):
            found = pattern.match(values, position)
            if not found:
                raise ValueError(f"Malformed hyperparameter value: {values[position:]}")
            position = found.end()
            name = found["name"]
            if name not in self._hparam_types:
                raise ValueError(f"Unknown hyperparameter type for {name}")
            kind, is_list = self._hparam_types[name]
            if found["index"] is not None:
                items = list(getattr(self, name))
                items[int(found["index"])] = _parsed(found["value"], kind, name)
                setattr(self, name, items)
            elif found["list"] is not None:
                self.set_hparam(name, [_parsed(item, kind, name) for item in found["list"].split(",") if item.strip()])
            elif is_list:
                raise ValueError(f"Must pass a list for multi-valued parameter: {name}.")
            else:
                self.set_hparam(name, _parsed(found["value"], kind, name))
        return self

    def override_from_dict(self, values_dict):
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse_json(self, values_json):
        return self.override_from_dict(json.loads(values_json))

    def values(self):
        return {name: getattr(self, name) for name in self._hparam_types}

    def to_json(self, indent=None, separators=None, sort_keys=False):
        values = {name: value for name, value in self.values().items() if not callable(value)}
        return json.dumps(values, indent=indent, separators=separators, sort_keys=sort_keys)

    def get(self, key, default=None):
        return getattr(self, key) if key in self._hparam_types else default

    def get_model_structure(self):
        return self._model_structure

    def set_model_structure(self, model_structure):
        self._model_structure = model_structure

    def __contains__(self, key):
        return key in self._hparam_types

    def __str__(self):
        return str(sorted(self.values().items()))

    def __repr__(self):
        return f"{type(self).__name__}({self})"
