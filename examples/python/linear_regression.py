"""Seed 000: linear regression with a Supervisor that saves every five seconds and goes on after a restart.

    python -m tensorfleet linear_regression.py --job_name=ps --task_index=0
    python -m tensorfleet linear_regression.py --job_name=worker --task_index=0
    python -m tensorfleet linear_regression.py --job_name=worker --task_index=1

The seed has its role in variables that are edited for each terminal; here they are flags.
"""

import numpy as np
import tensorflow as tf

# 定义 IP 和端口
tf.app.flags.DEFINE_string("ps_hosts", "localhost:1681", "Comma-separated list of hostname:port pairs")
tf.app.flags.DEFINE_string("worker_hosts", "localhost:1682,localhost:1683", "Comma-separated list of hostname:port pairs")
# 定义角色名称
tf.app.flags.DEFINE_string("job_name", "", "One of 'ps', 'worker'")
tf.app.flags.DEFINE_integer("task_index", 0, "Index of task within the job")
tf.app.flags.DEFINE_string("logdir", "log/super/", "Where checkpoints are saved")
tf.app.flags.DEFINE_integer("training_epochs", 2200, "How often the points are seen")
FLAGS = tf.app.flags.FLAGS

train_X = np.linspace(-1, 1, 100)
train_Y = 2 * train_X + np.random.RandomState(0).randn(*train_X.shape) * 0.3


def main(_):
    strjob_name, task_index = FLAGS.job_name, FLAGS.task_index
    # 将字符转成数组
    ps_hosts = FLAGS.ps_hosts.split(",")
    worker_hosts = FLAGS.worker_hosts.split(",")

    # 创建 server
    cluster_spec = tf.train.ClusterSpec({"ps": ps_hosts, "worker": worker_hosts})
    server = tf.train.Server({"ps": ps_hosts, "worker": worker_hosts}, job_name=strjob_name, task_index=task_index)

    # 为ps 角色使用 join 等待
    if strjob_name == "ps":
        print("Wait")
        server.join()

    with tf.device(tf.train.replica_device_setter(worker_device="/job:worker/task:%d" % task_index, cluster=cluster_spec)):
        X = tf.placeholder("float")
        Y = tf.placeholder("float")
        W = tf.Variable(tf.random_normal([1]), name="weight")
        b = tf.Variable(tf.zeros([1]), name="bias")

        # 获得迭代次数
        global_step = tf.train.get_or_create_global_step()
        z = tf.multiply(X, W) + b
        cost = tf.reduce_mean(tf.square(Y - z))
        train_op = tf.train.GradientDescentOptimizer(0.01).minimize(cost, global_step=global_step)
        saver = tf.train.Saver(max_to_keep=1)
        init = tf.global_variables_initializer()

        trainning_epochs = FLAGS.training_epochs
        display_step = 200
        # 设置主运算终端
        sv = tf.train.Supervisor(
            is_chief=(task_index == 0),  # 0 号 worker 为 chief
            logdir=FLAGS.logdir,
            init_op=init,
            saver=saver,
            global_step=global_step,
            save_model_secs=5,
        )
        # 连接目标角色 session
        with sv.managed_session(server.target) as sess:
            print("starts at global step", global_step.eval(session=sess))
            epoch = global_step.eval(session=sess)
            # The seed counts every step of every worker as an epoch, so the loop ends when all of them are done.
            while not sv.should_stop() and epoch < trainning_epochs * len(train_X):
                for x, y in zip(train_X, train_Y):
                    _, epoch = sess.run([train_op, global_step], feed_dict={X: x, Y: y})
                    if epoch % (display_step * len(train_X)) == 0:
                        loss = sess.run(cost, feed_dict={X: train_X, Y: train_Y})
                        print("Epoch:", epoch, "cost=", loss, "W=", sess.run(W), "b=", sess.run(b))

            print("Finished")
            print("cost:", sess.run(cost, feed_dict={X: train_X, Y: train_Y}), "W:", sess.run(W), "b:", sess.run(b))
            if task_index == 0:
                sv.saver.save(sess, FLAGS.logdir + "/sv.cpk", global_step=epoch)

        sv.stop()


if __name__ == "__main__":
    tf.app.run()
