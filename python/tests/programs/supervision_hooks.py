"""Hooks of a program: what they are called with, what they add, how they stop."""

DIFFERENCES = {"save/StringJoin/inputs_1": "a name made up for each saver"}


def program(tf, check):
    step = tf.train.get_or_create_global_step()
    train = step.assign_add(1)
    x = tf.placeholder_with_default(1.0, [], name="x")
    y = tf.multiply(x, 2.0, name="y")
    log = []

    class Hook(tf.train.SessionRunHook):
        def __init__(self, name):
            self.name = name

        def begin(self):
            log.append([self.name, "begin"])

        def after_create_session(self, session, coord):
            log.append([self.name, "created", int(session.run(step)), type(coord).__name__])

        def before_run(self, run_context):
            fetches = run_context.original_args.fetches
            log.append([self.name, "before", fetches.name if hasattr(fetches, "name") else [fetch.name for fetch in fetches], run_context.stop_requested])
            if self.name == "feeding":
                return tf.train.SessionRunArgs({"y": y, "both": [x, (step,)]}, feed_dict={x: 5.0})
            if self.name == "nothing":
                return None
            return tf.train.SessionRunArgs([y])

        def after_run(self, run_context, run_values):
            results = run_values.results
            if isinstance(results, dict):
                results = [float(results["y"]), float(results["both"][0]), type(results["both"][1]).__name__]
            elif results is not None:
                results = [float(result) for result in results]
            log.append([self.name, "after", results, type(run_values.run_metadata).__name__])
            if self.name == "stopping":
                run_context.request_stop()

        def end(self, session):
            log.append([self.name, "end", int(session.run(step))])

    hooks = [Hook("feeding"), Hook("nothing"), Hook("stopping")]
    with tf.train.MonitoredSession(hooks=hooks) as session:
        check("run", session.run([train, y])[1])
        check("stops", session.should_stop())
        try:
            session.run(train)
        except RuntimeError as error:
            check("after stop", str(error))
    check("log", log)
    with tf.train.SingularMonitoredSession(hooks=[tf.train.FeedFnHook(lambda: {x: 4.0})]) as session:
        check("fed", session.run(y))
        check("raw", type(session.raw_session()).__name__)
        try:
            session.run(y, feed_dict={x: 1.0})
        except RuntimeError as error:
            check("fed twice", str(error)[:50])
