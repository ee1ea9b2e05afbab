"""`tensorflow.python.client.device_lib`: the devices of this machine."""


def list_local_devices(session_config=None):
    """The devices a session in this process has, as `DeviceAttributes` messages."""
    import tensorfleet as tf
    from tensorfleet import protobuf

    with tf.Graph().as_default(), tf.Session(config=session_config) as session:
        listed = session.list_devices()
    return [
        protobuf.DeviceAttributes(name=device.name.replace("/job:localhost/replica:0/task:0", ""), device_type=device.device_type,
                                  memory_limit=device.memory_limit_bytes, incarnation=getattr(device, "incarnation", 0) or 0)
        for device in listed
    ]
