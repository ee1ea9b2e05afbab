"""Hooks that raise, and the end of an input."""


def program(tf, check):
    step = tf.train.get_or_create_global_step()
    train = step.assign_add(1)

    class Mine(Exception):
        pass

    def raising(method):
        class Hook(tf.train.SessionRunHook):
            pass

        def fails(self, *args):
            raise Mine(method)

        setattr(Hook, method, fails)
        return Hook()

    for method in ("begin", "after_create_session", "before_run", "after_run", "end"):
        ended = []

        class Other(tf.train.SessionRunHook):
            def end(self, session):
                ended.append(True)

        with tf.Graph().as_default():
            step = tf.train.get_or_create_global_step()
            train = step.assign_add(1)
            try:
                with tf.train.MonitoredSession(hooks=[Other(), raising(method)]) as session:
                    session.run(train)
                result = "no error"
            except Mine as error:
                result = str(error)
            check(method, [result, ended])
    for error in (tf.errors.OutOfRangeError(None, None, "no more"), StopIteration()):
        with tf.Graph().as_default():
            step = tf.train.get_or_create_global_step()
            with tf.train.MonitoredSession() as session:
                raise error
            check(type(error).__name__, "went on")
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        nan = tf.constant(float("nan"))
        try:
            with tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook(nan)]) as session:
                session.run(step)
        except tf.train.NanLossDuringTrainingError as error:
            check("nan", str(error))
        with tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook(nan, fail_on_nan_loss=False)]) as session:
            session.run(step)
            check("nan stops", session.should_stop())
    with tf.Graph().as_default():
        tf.constant(1.0)
        try:
            tf.train.MonitoredSession(hooks=[tf.train.StopAtStepHook(last_step=1)])
        except RuntimeError as error:
            check("no step", str(error))
    try:
        tf.train.StopAtStepHook()
    except ValueError as error:
        check("no goal", str(error))
    try:
        tf.train.LoggingTensorHook(["x"])
    except ValueError as error:
        check("no rate", str(error)[:40])
