"""Where nodes with all kinds of device requests run: one line per request and session target.

    python placement.py --ps_hosts=a:1 --worker_hosts=b:2,c:3

Nothing here is right or wrong by itself. The detail of a line says where the nodes ran; who runs this against two kinds of
servers compares the lines.
"""

import checks
import cluster as cluster_flags
from compat import tf

# Requests for a variable and what is computed with it.
REQUESTS = [
    "",
    "/cpu:0",
    "/device:CPU:0",
    "/replica:0",
    "/task:0",
    "/task:1",
    "/task:1/cpu:0",
    "/replica:0/task:0",
    "/job:ps",
    "/job:worker",
    "/job:worker/cpu:0",
    "/job:worker/task:1",
]
# With soft placement, for servers without such devices.
SOFT_REQUESTS = ["/gpu:0", "/task:1/gpu:0", "/job:worker/gpu:0", "/job:worker/task:1/gpu:3"]
FILTERS = [["/job:ps"], ["/job:worker"], ["/job:ps", "/job:worker/task:1"], ["/job:worker/task:1"]]


def short(device):
    """`ps:0` for /job:ps/replica:0/task:0/device:CPU:0."""
    parts = dict(part.split(":", 1) for part in device.strip("/").split("/"))
    return "%s:%s" % (parts["job"], parts["task"])


def where(target, build, soft=False, filters=()):
    """Builds a graph, runs what `build` returns, and tells where each of the named nodes ran."""
    config = cluster_flags.no_rewrites()
    config.allow_soft_placement = soft
    config.device_filters.extend(filters)
    config.operation_timeout_in_ms = 60000
    with tf.Graph().as_default():
        fetches, feeds = build()
        with tf.Session(target, config=config) as session:
            session.run(tf.global_variables_initializer())
            options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
            metadata = tf.RunMetadata()
            session.run(fetches, feeds, options=options, run_metadata=metadata)
    names = {fetch.op.name for fetch in fetches}
    ran = {}
    for device in metadata.step_stats.dev_stats:
        for node in device.node_stats:
            if node.node_name in names:
                ran[node.node_name] = short(device.device)
    return ", ".join("%s %s" % (name, ran.get(name, "nowhere")) for name in sorted(names))


def variable(name, value=1.0, resource=False):
    return tf.Variable(value, name=name, use_resource=resource)


def simple(device, resource=False):
    def build():
        x = tf.placeholder(tf.float32, [], name="x")
        with tf.device(device):
            v = variable("v", resource=resource)
            y = tf.add(v, x, name="y")
            handle = v.handle if resource else v._variable
            return [tf.identity(handle, name="v_here") if not resource else v._read_variable_op(), y], {x: 2.0}

    return build


def consumer_elsewhere():
    """A variable without a request whose only consumer has one."""
    x = tf.placeholder(tf.float32, [], name="x")
    v = variable("v")
    here = tf.identity(v._variable, name="v_here")
    with tf.device("/job:worker/task:1"):
        y = tf.add(v, x, name="y")
    with tf.device(None):
        z = tf.multiply(y, x, name="z")
    return [here, y, z], {x: 2.0}


def colocated():
    """Nodes that follow a variable with a request, and a variable without one."""
    x = tf.placeholder(tf.float32, [], name="x")
    with tf.device("/job:worker/task:1"):
        v = variable("v")
    with tf.colocate_with(v.op):
        y = tf.add(x, x, name="y")
    u = variable("u")
    with tf.colocate_with(u.op):
        z = tf.multiply(x, x, name="z")
    return [y, z], {x: 2.0}


def shapes():
    """`Shape` stays with its input."""
    x = tf.placeholder(tf.float32, name="x")
    with tf.device("/job:worker/task:1"):
        y = tf.add(x, x, name="y")
    return [tf.shape(y, name="s"), y], {x: [2.0]}


def queue():
    """State without a request that several sessions share by name."""
    q = tf.FIFOQueue(2, [tf.float32], shapes=[[]], shared_name="placed")
    x = tf.placeholder(tf.float32, [], name="x")
    with tf.control_dependencies([q.enqueue(x)]):
        size = q.dequeue(name="y")
    return [size], {x: 2.0}


def register(name, build, **options):
    for job in ("ps", "worker"):
        for task in range(2):

            def function(cluster, job=job, task=task):
                hosts = cluster.ps_hosts if job == "ps" else cluster.worker_hosts
                if task >= len(hosts):
                    return "no such task"
                # Variables of other cases must not be found.
                tf.Session.reset("grpc://" + hosts[task])
                return where("grpc://" + hosts[task], build, **options)

            function.__name__ = "%s @ %s:%d" % (name, job, task)
            checks.check(function)


for request in REQUESTS:
    register("'%s'" % request, simple(request))
for request in SOFT_REQUESTS:
    register("'%s' soft" % request, simple(request), soft=True)
for request in ["", "/cpu:0", "/task:1"]:
    register("'%s' resource" % request, simple(request, resource=True))
for filters in FILTERS:
    register("'' filters %s" % " ".join(filters), simple(""), filters=filters)
for builder in [consumer_elsewhere, colocated, shapes, queue]:
    register(builder.__name__, builder)


if __name__ == "__main__":
    checks.main(__doc__)
