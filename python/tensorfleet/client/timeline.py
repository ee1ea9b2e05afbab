"""`tensorflow.python.client.timeline`: what a traced step did and when, for `chrome://tracing`."""

import json


class Timeline:
    """A step's statistics (`run_metadata.step_stats`) as a trace."""

    def __init__(self, step_stats, graph=None):
        self._step_stats = step_stats

    def generate_chrome_trace_format(self, show_dataflow=True, show_memory=False):
        """The trace as JSON text, to be written into a file and opened in a browser."""
        from tensorfleet import _native

        return _native.timeline(self._step_stats.SerializeToString(), show_dataflow, show_memory)

    def analyze_step_stats(self, show_dataflow=True, show_memory=True):
        """The trace, with the largest amount of memory of every allocator where it was recorded."""
        trace = ChromeTrace(self.generate_chrome_trace_format(show_dataflow, show_memory))
        return StepStatsAnalysis(trace, self._allocators())

    def _allocators(self):
        most = {}
        for device in self._step_stats.dev_stats:
            for node in device.node_stats:
                for memory in node.memory:
                    most[memory.allocator_name] = max(most.get(memory.allocator_name, 0), memory.total_bytes)
        return most


class ChromeTrace:
    """A trace that is text already."""

    def __init__(self, text):
        self._text = text

    def format_to_string(self, pretty=False):
        """The trace as JSON text."""
        return json.dumps(json.loads(self._text), indent=4, separators=(",", ": ")) if pretty else self._text


class StepStatsAnalysis:
    """What `analyze_step_stats` returns: the trace and the largest allocation of every allocator."""

    def __init__(self, chrome_trace, allocator_maximums):
        self.chrome_trace, self.allocator_maximums = chrome_trace, allocator_maximums
