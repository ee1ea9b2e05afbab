"""Processes for tests: started with free ports on loopback, waited for by what they say, and gone when the test ends."""

import os
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

TESTS = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(TESTS))
EXAMPLES = os.path.join(ROOT, "examples", "python")

#: How long anything may take on a machine with other work.
LIMIT_SECONDS = 120


def _is_set(name):
    return os.environ.get(name, "") not in ("", "0", "false")


def skip(missing, remedy):
    """Leaves the test out, or fails where nothing may be left out: on a machine that accepts changes."""
    if _is_set("CI") and not _is_set("TENSORFLEET_ALLOW_SKIPS"):
        raise AssertionError("%s, and with CI set no test may be left out: %s, or set TENSORFLEET_ALLOW_SKIPS=1" % (missing, remedy))
    raise unittest.SkipTest("%s; %s" % (missing, remedy))


def tensorflow_python(version):
    """The interpreter that has TensorFlow 1.15 (`1`) or 2.x (`2`)."""
    named = os.environ.get("TENSORFLEET_TF%d_PYTHON" % version)
    directory = os.path.join(ROOT, "target", "python", "tf%d" % version)
    # The stamp is written last.
    if not named and os.path.exists(os.path.join(directory, "complete")):
        named = os.path.join(directory, "bin", "python")
    if not named or not os.path.exists(named):
        skip("there is no Python with TensorFlow %d" % version, "`cargo xtask python` makes one")
    return named


def command():
    """The program `tensorfleet`."""
    named = os.environ.get("TENSORFLEET_BINARY") or os.environ.get("TENSORFLEET_COMMAND")
    named = named or os.path.join(ROOT, "target", "debug", "tensorfleet")
    if not os.path.exists(named):
        skip("%s is not built" % named, "`cargo build -p tensorfleet-cli` builds it")
    return named


#: Below the ports that the system gives to whoever asks for any, so that no connection takes one between our look and
#: the server's; where to begin depends on the process, so that tests that run at the same time seldom meet.
_PORTS = iter(range(10_000 + os.getpid() * 61 % 20_000, 32_000))


def addresses(count):
    """Addresses nobody listens at."""
    found = []
    while len(found) < count:
        port = next(_PORTS)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append("127.0.0.1:%d" % port)
    return found


class Program:
    """A process whose standard output is read line by line; its error output is kept."""

    def __init__(self, test, arguments, **environment):
        self._log = tempfile.TemporaryFile()
        self._lines = queue.Queue()
        environment = dict(os.environ, PYTHONUNBUFFERED="1", **environment)
        self.process = subprocess.Popen(
            arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, env=environment)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        test.addCleanup(self.end)

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def tell(self, line):
        """Writes a line to its standard input."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def next_line(self):
        """The next line it says; `None` after the last."""
        try:
            return self._lines.get(timeout=LIMIT_SECONDS)
        except queue.Empty:
            raise AssertionError("%s says nothing for %d s\n%s" % (self, LIMIT_SECONDS, self.log())) from None

    def wait_for(self, found):
        """Reads lines until `found(line)` gives something, which is returned."""
        lines = []
        while True:
            line = self.next_line()
            if line is None:
                raise AssertionError("%s has ended after saying\n%s\n%s" % (self, "\n".join(lines[-20:]), self.log()))
            lines.append(line)
            value = found(line)
            if value is not None and value is not False:
                return value

    def lines(self):
        """All lines that were not read before, of a program that ends well."""
        lines = list(iter(self.next_line, None))
        status = self.process.wait(LIMIT_SECONDS)
        if status != 0:
            raise AssertionError("%s ended with %d\n%s\n%s" % (self, status, "\n".join(lines[-20:]), self.log()))
        return lines

    def kill(self):
        self.process.kill()
        self.process.wait()

    def said(self):
        """Kills it; all lines that were not read before."""
        self.kill()
        return list(iter(self.next_line, None))

    def end(self):
        self.kill()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout, self._log):
            try:
                pipe.close()
            except BrokenPipeError:
                pass

    def wait_until(self, condition):
        """Waits until something has come about that it does without a word."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while not condition():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise AssertionError("%s has not done it\n%s" % (self, self.log()))
            time.sleep(0.01)

    def log(self):
        """What it has said on its error output."""
        # Without moving the place that the process writes at, which it shares with us.
        file = self._log.fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")

    def __str__(self):
        return " ".join(os.path.basename(word) for word in self.process.args[:6])


def script(test, path, *arguments, **environment):
    """Starts a script that says `import tensorflow`, with tensorfleet."""
    return Program(test, [sys.executable, "-m", "tensorfleet", "--quiet", path, *arguments], **environment)


class TensorFlow:
    """A process of TensorFlow that starts servers when it is asked to. One serves all tests: importing TensorFlow takes seconds."""

    _running = {}

    @classmethod
    def of(cls, kind):
        version = int(kind[-1])
        running = cls._running.get(version)
        # The one of another module of tests has ended with it.
        if running is None or running._program.process.poll() is not None:
            running = cls._running[version] = cls(version)
        return running

    def __init__(self, version):
        arguments = [tensorflow_python(version), "-W", "ignore", os.path.join(TESTS, "tensorflow_servers.py")]
        # It logs where nodes are placed.
        self._program = Program(_Module, arguments, TF_CPP_MIN_LOG_LEVEL="0", PYTHONPATH="")
        self.log = self._program.log

    def serve(self, ps, workers, job, index):
        self._program.tell("%s %s %s %d" % (",".join(ps), ",".join(workers), job, index))
        self._program.wait_for(lambda line: line == "READY")


class _Module:
    """What ends with the tests of a module."""

    addCleanup = staticmethod(unittest.addModuleCleanup)


class Cluster:
    """Addresses of tasks, and who serves them: `"python"` (the script itself), `"serve"`, `"tensorflow 1"` or `"tensorflow 2"`."""

    def __init__(self, test, ps, workers, kind="python"):
        found = addresses(ps + workers)
        self._test, self.kind = test, kind
        self.ps, self.workers = found[:ps], found[ps:]
        self.servers = []

    @property
    def hosts(self):
        return ["--ps_hosts=" + ",".join(self.ps), "--worker_hosts=" + ",".join(self.workers)]

    def serve(self, job, index):
        """Starts a server that is not one of the script's."""
        if self.kind == "serve":
            task = ["--job_name=" + job, "--task_index=%d" % index]
            self.servers.append(Program(self._test, [command(), "serve", *self.hosts, *task]))
        else:
            TensorFlow.of(self.kind).serve(self.ps, self.workers, job, index)

    def serve_all(self):
        for job, tasks in (("ps", self.ps), ("worker", self.workers)):
            for index in range(len(tasks)):
                self.serve(job, index)

    def task(self, path, job, index, *arguments):
        """Starts the script as a task of the cluster."""
        task = ["--job_name=" + job, "--task_index=%d" % index]
        return script(self._test, path, *self.hosts, *task, *arguments)

    def parameter_servers(self, path, *arguments):
        """Starts them: the script's own, or somebody else's."""
        if self.kind == "python":
            return [self.task(path, "ps", index, *arguments) for index in range(len(self.ps))]
        for index in range(len(self.ps)):
            self.serve("ps", index)
        return []
