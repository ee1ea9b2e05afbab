"""Cluster descriptions and servers in this process."""

OWN_PROCESS = True


def message(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__, str(error).split("\n")[0]
    return "no error"


def program(tf, check):
    spec = tf.train.ClusterSpec({"worker": ["a:1", "b:2"], "ps": {3: "c:3"}})
    check("spec", [spec.as_dict(), sorted(spec.jobs), spec.num_tasks("worker"), spec.task_indices("ps"), spec.task_address("ps", 3), spec.job_tasks("ps"), str(spec), bool(spec)])
    check("def", str(spec.as_cluster_def()))
    check("same", [spec == tf.train.ClusterSpec(spec.as_cluster_def()), spec == tf.train.ClusterSpec(spec), spec == tf.train.ClusterSpec({"a": ["b:1"]})])
    check("mistakes", [
        message(lambda: spec.num_tasks("none")),
        message(lambda: spec.task_address("ps", 0)),
        message(lambda: tf.train.ClusterSpec({"a": 3})),
        message(lambda: tf.train.ClusterSpec({"a": {"x": "y"}})),
        message(lambda: tf.train.ClusterSpec(7)),
        message(lambda: tf.train.Server({"a": ["localhost:0"], "b": ["localhost:0"]})),
        message(lambda: tf.train.Server({"a": ["localhost:0", "localhost:0"]})),
        message(lambda: tf.train.Server(7)),
    ])
    server = tf.train.Server.create_local_server()
    check("target", [server.target.startswith("grpc://localhost:"), type(server.target).__name__])
    check("server def", str(server.server_def))
    v = tf.Variable(3.0, name="v")
    with tf.Session(server.target) as sess:
        sess.run(v.initializer)
        sess.run(v.assign_add(1.0))
    with tf.Session(server.target) as sess:
        check("shared", sess.run(v))
        check("devices", [device.device_type for device in sess.list_devices() if device.device_type == "CPU"])
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, master="m", task_type="worker", task_id=1)
    check("resolver", [resolver.master(), resolver.master("ps", 3), resolver.master("ps", 3, "grpc"), resolver.task_type, resolver.task_id])
    import json
    import os

    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}, "rpc_layer": "grpc"})
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    check("TF_CONFIG", [resolver.cluster_spec().as_dict(), resolver.master(), resolver.task_type, resolver.task_id, resolver.rpc_layer])
