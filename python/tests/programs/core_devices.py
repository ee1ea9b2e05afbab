"""Device scopes: strings, functions, specifications, resets."""


def program(tf, check):
    found = []

    def put(name):
        found.append((name, tf.constant(1.0, name=name).device))

    with tf.device("/job:worker"):
        put("job")
        with tf.device("/task:1"):
            put("task")
            with tf.device("/cpu:0"):
                put("cpu")
            with tf.device("/gpu:1"):
                put("gpu")
        with tf.device(None):
            put("reset")
        with tf.device(tf.DeviceSpec(job="ps", task=0, device_type="CPU", device_index=0)):
            put("spec")
    with tf.device(lambda op: "/job:ps/task:2" if op.type == "VariableV2" else "/job:worker/task:3"):
        v = tf.Variable(1.0, name="v")
        put("by_function")
        with tf.device("/cpu:0"):
            put("string_inside_function")
    with tf.device("/job:ps"):
        with tf.device(lambda op: op.device + "/task:7" if op.device else "/task:8"):
            put("function_inside_string")
    with tf.device("/job:worker/task:0"):
        w = tf.get_variable("w", [2], initializer=tf.zeros_initializer())
        r = tf.get_variable("r", [2], initializer=tf.zeros_initializer(), use_resource=True)
    with tf.device("/job:worker/task:1"):
        used = [w + 1.0, r + 1.0, tf.assign_add(w, [1.0, 1.0])]
    check("devices", found)
    check("variables", [(op.name, op.device) for op in tf.get_default_graph().get_operations() if op.name.split("/")[0] in ("v", "w", "r")])
    check("uses", [t.op.device for t in used])
    spec = tf.DeviceSpec.from_string("/job:ps/replica:0/task:1/device:GPU:2")
    check("spec", [spec.to_string(), spec.job, spec.task, spec.device_type, spec.device_index])
