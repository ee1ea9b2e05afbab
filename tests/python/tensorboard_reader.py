"""Checks: TensorBoard's own readers, 1.15 or later, understand what the Rust library wrote.

`tests/tests/tensorboard.rs` makes the directory with `logs`, in which there is an event file.
"""

import argparse
import glob
import os

import numpy as np

import checks
from checks import check, expect
from compat import tf
from tensorboard.backend.event_processing import event_accumulator, event_file_loader, plugin_event_accumulator


class Logs:
    """The directory, and what TensorBoard makes of its event file."""

    def __init__(self, directory):
        logs = os.path.join(directory, "logs")
        (self.event_file,) = glob.glob(os.path.join(logs, "events.out.tfevents.*"))
        everything = {
            kind: 0
            for kind in (
                event_accumulator.COMPRESSED_HISTOGRAMS,
                event_accumulator.IMAGES,
                event_accumulator.AUDIO,
                event_accumulator.SCALARS,
                event_accumulator.HISTOGRAMS,
                event_accumulator.TENSORS,
            )
        }
        self.accumulator = event_accumulator.EventAccumulator(logs, everything)
        self.accumulator.Reload()
        # Plugins see all values as tensors.
        self.plugins = plugin_event_accumulator.EventAccumulator(logs)
        self.plugins.Reload()
        # Since 2.x another loader gives events as they stand in the file.
        as_written = getattr(event_file_loader, "LegacyEventFileLoader", event_file_loader.EventFileLoader)
        self.events = list(as_written(self.event_file).Load())


@check
def file_begins_with_its_version(logs):
    expect(logs.events[0].file_version == "brain.Event:2", "the first event is %s", logs.events[0])
    expect(logs.accumulator.FirstEventTimestamp() == logs.events[0].wall_time, "another first time stamp")


@check
def scalars(logs):
    tags = logs.accumulator.Tags()["scalars"]
    expect(sorted(tags) == ["global_step/sec", "loss", "train/count"], "scalars are %s", tags)
    seen = [(event.step, event.value) for event in logs.accumulator.Scalars("loss")]
    expect(seen == [(1, 0.5), (2, 0.25), (3, 0.125)], "the loss is %s", seen)
    expect(logs.accumulator.Scalars("global_step/sec")[0].value == 12.5, "another rate")


@check
def histograms(logs):
    tags = logs.accumulator.Tags()["histograms"]
    expect(sorted(tags) == ["numbers", "weights"], "histograms are %s", tags)
    event = logs.accumulator.Histograms("numbers")[0]
    histogram = event.histogram_value
    expect((event.step, histogram.num, histogram.min, histogram.max) == (1, 4, -3, 1000), "it is %s", histogram)
    expect(sum(histogram.bucket) == 4, "the buckets hold %s", histogram.bucket)


@check
def images(logs):
    tags = logs.accumulator.Tags()["images"]
    expected = ["bytes/image/0", "bytes/image/1", "floats/image", "halves/image/0"]
    expect(sorted(tags) == expected, "images are %s", tags)
    image = logs.accumulator.Images("bytes/image/1")[0]
    expect((image.width, image.height) == (5, 4), "the picture has %d by %d pixels", image.width, image.height)
    with tf.Graph().as_default(), tf.Session() as session:
        pixels = session.run(tf.image.decode_png(image.encoded_image_string))
    expected = (np.arange(60, 120) * 7 % 256).reshape(4, 5, 3)
    expect((pixels == expected).all(), "its pixels are %s", pixels)


@check
def audio(logs):
    tags = logs.accumulator.Tags()["audio"]
    expect(sorted(tags) == ["sound/audio/0", "sound/audio/1"], "clips are %s", tags)
    clip = logs.accumulator.Audio("sound/audio/0")[0]
    expect((clip.sample_rate, clip.length_frames, clip.content_type) == (8000, 6, "audio/wav"), "it is %s", clip)


@check
def text(logs):
    """Text is a tensor of the plugin `text`; its metadata comes with the first value alone."""
    tags = logs.accumulator.Tags()["tensors"]
    expect(tags == ["notes"], "tensors are %s", tags)
    plugin = logs.accumulator.SummaryMetadata("notes").plugin_data.plugin_name
    expect(plugin == "text", "the plugin is %s", plugin)
    seen = [event.tensor_proto.string_val for event in logs.accumulator.Tensors("notes")]
    expect(list(seen[0]) == [b"first *line*", b"second"] and len(seen) == 3, "the text is %s", seen)
    described = [
        value.HasField("metadata")
        for event in logs.events
        if event.HasField("summary")
        for value in event.summary.value
        if value.tag == "notes"
    ]
    expect(described == [True, False, False], "metadata is written %s", described)


@check
def every_plugin_finds_its_values(logs):
    """TensorBoard turns all values into tensors of plugins; each must find its own."""
    kinds = {"loss": "scalars", "numbers": "histograms", "bytes/image": "images", "notes": "text"}
    for tag, kind in kinds.items():
        found = logs.plugins.PluginTagToContent(kind)
        expect(any(name.startswith(tag) for name in found), "the plugin %s has %s", kind, list(found))


@check
def graph_has_devices_and_shapes(logs):
    graph = logs.accumulator.Graph()
    devices = {node.name: node.device for node in graph.node}
    expect(devices["weights/tag"] == "/job:localhost/task:0", "the device is '%s'", devices["weights/tag"])
    shapes = {node.name: node.attr["_output_shapes"].list.shape for node in graph.node}
    (shape,) = shapes["pictures"]
    expect([dim.size for dim in shape.dim] == [2, 4, 5, 3], "the shape is %s", shape)
    meta_graph = logs.accumulator.MetaGraph()
    expect(len(meta_graph.graph_def.node) == len(graph.node), "the meta graph has other nodes")


@check
def session_log(logs):
    seen = [
        (event.step, event.session_log.status, event.session_log.checkpoint_path)
        for event in logs.events
        if event.HasField("session_log")
    ]
    expect(seen == [(0, 1, ""), (3, 3, "/logs/model.ckpt-3"), (3, 2, "")], "the session log is %s", seen)


@check
def run_metadata(logs):
    expect(logs.accumulator.Tags()["run_metadata"] == ["step3"], "other run metadata")
    metadata = logs.accumulator.RunMetadata("step3")
    device = metadata.step_stats.dev_stats[0].device
    expect(device.startswith("/job:localhost"), "the device is %s", device)


def argument_parser():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", required=True, help="what to read")
    return parser


if __name__ == "__main__":
    checks.main(__doc__, argument_parser(), lambda flags: Logs(flags.directory))
