"""Our Python package and TensorFlow's, Python on both sides, by turns; prints a Markdown table.

    python benches/python_package.py --ours PYTHON --tensorflow PYTHON [--tensorflow1 PYTHON] [--rounds N] [--only TEXT]

Each number is the median over the rounds. Programs are the same on all sides: ours runs them with `python -m tensorfleet`. `cargo xtask
bench --python` calls it with the environments that it makes.
"""

import argparse
import os
import re
import socket
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENT = os.path.join(HERE, "python_client.py")
MNIST = os.path.join(HERE, "mnist_tensorflow.py")
DATA = os.path.join(os.path.dirname(HERE), "data", "mnist")
#: Steps of worker 0 before the clock starts: plans are made, variables and buffers warm.
WARM_UP = 100
#: Enough for ten seconds on either side.
STEPS = {"Tensorfleet": 8000}
THEIR_STEPS = 2000
STEP = re.compile(r"^([0-9.]+): Worker 0: training step \d+ done \(global step: (\d+)\)")
#: A program that takes longer hangs.
TIMEOUT_SECONDS = 300


class Side:
    """A package: its interpreter, and what stands before a script that imports TensorFlow."""

    def __init__(self, name, python, module, words=()):
        self.name, self.python, self.module, self.words = name, python, module, list(words)

    def command(self, script, *arguments):
        return [self.python, *self.words, script, *map(str, arguments)]

    def start(self, script, *arguments, **options):
        environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", PYTHONWARNINGS="ignore", PYTHONUNBUFFERED="1")
        return subprocess.Popen(
            self.command(script, *arguments), env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **options
        )

    def number(self, script, *arguments):
        """The last word that a program prints."""
        process = self.start(script, *arguments)
        try:
            output, _ = process.communicate(timeout=TIMEOUT_SECONDS)
        finally:
            process.kill()
        if process.returncode != 0:
            raise RuntimeError(f"{self.name}: {' '.join(map(str, arguments))} failed: {process.returncode}")
        return float(output.split()[-1])


def free_addresses(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    addresses = [f"localhost:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return addresses


def resident_megabytes(process):
    with open(f"/proc/{process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024


def imported(side):
    """Seconds of the import alone, in a process of its own."""
    script = f"import time; begin = time.perf_counter(); import {side.module}; print(time.perf_counter() - begin)"
    done = subprocess.run([side.python, "-c", script], capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=True)
    return float(done.stdout.split()[-1])


def hello(side):
    """Seconds from the start of a process to its end, with a server, a session and one answer between."""
    begin = time.perf_counter()
    side.number(CLIENT, "hello")
    return time.perf_counter() - begin


def local_run(side):
    """Seconds of `session.run(constant)` in one process."""
    return side.number(CLIENT, "constant", "")


def with_server(side, measure):
    """What `measure` finds while a server of this side runs in a process of its own."""
    (address,) = free_addresses(1)
    server = side.start(CLIENT, "serve", address)
    try:
        server.stdout.readline()
        return measure(server, address)
    finally:
        server.kill()
        server.wait()


def remote_run(side):
    """Seconds of `session.run(constant)` on a server of another process."""
    return with_server(side, lambda _, address: side.number(CLIENT, "constant", f"grpc://{address}"))


def idle_memory(side):
    """Megabytes of a server that has done nothing."""
    return with_server(side, lambda server, _: resident_megabytes(server))


class Training:
    """Seed 004: MNIST with one ps and two workers; remembers what the ps took."""

    def __init__(self, sync):
        self.sync = sync
        self.ps_megabytes = {}

    def __call__(self, side):
        ps, *workers = free_addresses(3)
        flags = [f"--ps_hosts={ps}", f"--worker_hosts={','.join(workers)}", f"--data_dir={DATA}"]
        flags += [f"--train_steps={STEPS.get(side.name, THEIR_STEPS)}", f"--sync_replicas={str(self.sync).lower()}"]
        processes = []
        try:
            for job, index in (("ps", 0), ("worker", 1), ("worker", 0)):
                processes.append(side.start(MNIST, *flags, f"--job_name={job}", f"--task_index={index}"))
                if (job, index) == ("worker", 1):
                    # Nobody reads its lines.
                    subprocess.Popen(["cat"], stdin=processes[-1].stdout, stdout=subprocess.DEVNULL)
            return self.rate(side, processes[0], processes[-1])
        finally:
            for process in processes:
                process.kill()
                process.wait()

    def rate(self, side, ps, chief):
        """Global steps per second, as worker 0 sees them."""
        seen, count, first, last = time.monotonic(), 0, None, None
        for line in chief.stdout:
            found = STEP.match(line)
            if found is None:
                continue
            count += 1
            last = float(found.group(1)), int(found.group(2))
            if count == WARM_UP:
                first = last
            if count == 3 * WARM_UP:
                self.ps_megabytes.setdefault(side.name, []).append(resident_megabytes(ps))
            if time.monotonic() - seen > TIMEOUT_SECONDS:
                break
        if first is None or last[0] <= first[0]:
            raise RuntimeError(f"{side.name}: the training made too few steps to measure")
        return (last[1] - first[1]) / (last[0] - first[0])


def seconds(value):
    return f"{value * 1e6:.0f} µs" if value < 1e-3 else f"{value * 1e3:.1f} ms" if value < 0.1 else f"{value:.2f} s"


def megabytes(value):
    return f"{value:.0f} MB"


def rate(value):
    return f"{value:.0f}"


def table(sides, rows, rounds):
    """Measures every row by turns and prints it; `×` is how many times better ours is than the newest TensorFlow."""
    names = [side.name for side in sides]
    print(f"| | {' | '.join(names)} | × | bar |")
    print(f"| --- | {' | '.join('---:' for _ in names)} | ---: | ---: |")
    for name, measure, shown, is_rate, bar, wanted in rows:
        samples = {side.name: [] for side in sides}
        for turn in range(rounds):
            for side in wanted or sides:
                print(f"{name}: {side.name}, round {turn + 1} of {rounds}", file=sys.stderr)
                samples[side.name].append(measure(side))
        print_row(name, names, {key: statistics.median(value) for key, value in samples.items() if value}, shown, is_rate, bar)
        if isinstance(measure, Training) and not measure.sync:
            memory = {key: statistics.median(value) for key, value in measure.ps_megabytes.items()}
            print_row("memory of its ps while it trains", names, memory, megabytes, False, "≥ 8")


def print_row(name, names, medians, shown, is_rate, bar):
    ours, theirs = medians["Tensorfleet"], medians[names[0]]
    ratio = ours / theirs if is_rate else theirs / ours
    cells = [shown(medians[each]) if each in medians else "" for each in names]
    print(f"| {name} | {' | '.join(cells)} | {ratio:.1f} | {bar} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ours", required=True)
    parser.add_argument("--tensorflow", required=True)
    parser.add_argument("--tensorflow1")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    flags = parser.parse_args()
    theirs = Side("TensorFlow 2.21", flags.tensorflow, "tensorflow.compat.v1")
    ours = Side("Tensorfleet", flags.ours, "tensorfleet", ["-m", "tensorfleet"])
    old = [Side("TensorFlow 1.15", flags.tensorflow1, "tensorflow")] if flags.tensorflow1 else []
    rows = [
        ("import", imported, seconds, False, "≥ 20, ≤ 0.2 s", None),
        ("`hello`: process start to end", hello, seconds, False, "≥ 15", None),
        ("`run` of a constant, one process", local_run, seconds, False, "≥ 8", None),
        ("`run` of a constant over grpc", remote_run, seconds, False, "≥ 8", None),
        ("memory of an idle ps", idle_memory, megabytes, False, "≥ 8", None),
        ("seed 004 asynchronous, steps/s", Training(False), rate, True, "≥ 5", [theirs, ours]),
        ("seed 004 synchronous, rounds/s", Training(True), rate, True, "≥ 3.5", [theirs, ours]),
    ]
    table([theirs, *old, ours], [row for row in rows if flags.only in row[0]], flags.rounds)


if __name__ == "__main__":
    main()
