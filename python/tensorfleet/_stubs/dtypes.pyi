"""Made by `python -m tensorfleet.framework.stubs`: `tf.dtypes`."""

from typing import Any
from tensorfleet.framework.dtypes import DType as DType
from tensorfleet.framework.dtypes import QUANTIZED_DTYPES as QUANTIZED_DTYPES
from tensorfleet.framework.dtypes import as_dtype as as_dtype
from tensorfleet.ops.math import cast as cast
from tensorfleet.ops.math import complex as complex
from tensorfleet.framework.dtypes import float64 as double
from tensorfleet.framework.dtypes import float32 as float32
from tensorfleet.framework.dtypes import float64 as float64
from tensorfleet.framework.dtypes import int32 as int32
from tensorfleet.framework.dtypes import int64 as int64
from tensorfleet.ops.math import saturate_cast as saturate_cast
from tensorfleet.framework.dtypes import string as string

def as_string(input, precision=-1, scientific=False, shortest=False, width=-1, fill='', name=None) -> Any: ...
bfloat16: Any
bool: Any
complex128: Any
complex64: Any
float16: Any
half: Any
int16: Any
int8: Any
qint16: Any
qint32: Any
qint8: Any
quint16: Any
quint8: Any
resource: Any
uint16: Any
uint32: Any
uint64: Any
uint8: Any
variant: Any
