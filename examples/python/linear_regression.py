"""Seed 000: linear regression with a Supervisor that saves every five seconds and goes on after a restart.

In three shells:

    python -m tensorfleet linear_regression.py --job_name=ps --task_index=0
    python -m tensorfleet linear_regression.py --job_name=worker --task_index=0
    python -m tensorfleet linear_regression.py --job_name=worker --task_index=1
"""

import numpy as np
import tensorflow as tf

# Variables in the seed, which are edited for each shell: flags here.
# 定义 IP 和端口
tf.app.flags.DEFINE_string("ps_hosts", "localhost:1681", "Comma-separated list of hostname:port pairs")
tf.app.flags.DEFINE_string("worker_hosts", "localhost:1682,localhost:1683", "Comma-separated list of hostname:port pairs")
# 定义角色名称
tf.app.flags.DEFINE_string("job_name", "ps", "One of 'ps', 'worker'")
tf.app.flags.DEFINE_integer("task_index", 0, "Index of task within the job")
tf.app.flags.DEFINE_string("logdir", "log/super/", "Directory for checkpoints")
tf.app.flags.DEFINE_integer("training_epochs", 2200, "Number of passes over the points")
tf.app.flags.DEFINE_integer("save_model_secs", 5, "Seconds between two checkpoints")
FLAGS = tf.app.flags.FLAGS
strjob_name = FLAGS.job_name
task_index = FLAGS.task_index
# 将字符转成数组
ps_hosts = FLAGS.ps_hosts.split(",")
worker_hosts = FLAGS.worker_hosts.split(",")

# The seed leaves its points out.
train_X = np.linspace(-1, 1, 100)
train_Y = 2 * train_X + np.random.RandomState(0).randn(*train_X.shape) * 0.3

# 创建 server
cluster_spec = tf.train.ClusterSpec({'ps':ps_hosts,'worker':worker_hosts})
server = tf.train.Server(
                    {'ps':ps_hosts,'worker':worker_hosts},
                    job_name = strjob_name,
                    task_index = task_index)

# 为ps 角色使用 join 等待
if strjob_name == 'ps':
    print("Wait")
    server.join()

with tf.device(tf.train.replica_device_setter(
        worker_device = "/job:worker/task:%d" % task_index,
        cluster = cluster_spec)):
    X = tf.placeholder("float")
    Y = tf.placeholder("float")
    W = tf.Variable(tf.random_normal([1]),name = "weight")
    b = tf.Variable(tf.zeros([1]),name = "bias")

    # 获得迭代次数
    global_step = tf.train.get_or_create_global_step()
    z = tf.multiply(X,W) + b
    cost = tf.reduce_mean(tf.square(Y - z))
    train_op = tf.train.GradientDescentOptimizer(0.01).minimize(cost,global_step = global_step)
    saver = tf.train.Saver(max_to_keep = 1)
    init = tf.global_variables_initializer()

    trainning_epochs = FLAGS.training_epochs
    display_step = 2
    # 设置主运算终端
    sv = tf.train.Supervisor(is_chief = (task_index == 0), # 0 号 worker 为 chief
                                logdir = FLAGS.logdir,
                                init_op = init,
                                saver = saver,
                                global_step = global_step,
                                save_model_secs = FLAGS.save_model_secs)
    # 连接目标角色 session
    with sv.managed_session(server.target) as sess:
        print(global_step.eval(session = sess))
        # The seed does not say how far one pass comes, and so makes a hundred times as many.
        for epoch in range(global_step.eval(session = sess),trainning_epochs * len(train_X),len(train_X)):
            for (x,y) in zip (train_X,train_Y):
                _,epoch = sess.run([train_op,global_step],feed_dict = {X:x,Y:y})
            # The seed leaves this out.
            if epoch // len(train_X) % display_step == 0:
                loss = sess.run(cost,feed_dict = {X:train_X,Y:train_Y})
                print("Epoch:",epoch // len(train_X),"cost=",loss,"W=",sess.run(W)[0],"b=",sess.run(b)[0])

        print("Finished")
        sv.saver.save(sess,FLAGS.logdir + "/sv.cpk",global_step = epoch)

    sv.stop()
