"""Made by `python -m tensorfleet.framework.stubs`: `tf.nn.rnn_cell`."""

from tensorfleet.modeling.rnn_cell import BasicLSTMCell as BasicLSTMCell
from tensorfleet.modeling.rnn_cell import BasicRNNCell as BasicRNNCell
from tensorfleet.modeling.rnn_wrappers import DeviceWrapper as DeviceWrapper
from tensorfleet.modeling.rnn_wrappers import DropoutWrapper as DropoutWrapper
from tensorfleet.modeling.rnn_cell import GRUCell as GRUCell
from tensorfleet.modeling.rnn_cell import LSTMCell as LSTMCell
from tensorfleet.modeling.rnn_cell import LSTMStateTuple as LSTMStateTuple
from tensorfleet.modeling.rnn_cell import MultiRNNCell as MultiRNNCell
from tensorfleet.modeling.rnn_cell import RNNCell as RNNCell
from tensorfleet.modeling.rnn_wrappers import ResidualWrapper as ResidualWrapper
