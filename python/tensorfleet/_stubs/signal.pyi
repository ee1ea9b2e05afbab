"""Made by `python -m tensorfleet.framework.stubs`: `tf.signal`."""

from tensorfleet.ops.signal_frames import frame as frame
from tensorfleet.ops.signal import hamming_window as hamming_window
from tensorfleet.ops.signal import hann_window as hann_window
from tensorfleet.ops.signal_frames import linear_to_mel_weight_matrix as linear_to_mel_weight_matrix
from tensorfleet.ops.signal_frames import overlap_and_add as overlap_and_add
