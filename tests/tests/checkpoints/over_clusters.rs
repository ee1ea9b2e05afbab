//! Savers on clusters: the tasks that hold the variables write them and read them, be they ours or TensorFlow's.

use tensorfleet::checkpoint::CheckpointReader;
use tensorfleet::train::{Saver, latest_checkpoint};
use tensorfleet::{Code, Graph, Session, Variable};
use tensorfleet_tests::cluster::{Cluster, Job, Server};
use tensorfleet_tests::python::Interpreter;

/// Variables on two parameter servers, of both kinds.
fn spread(graph: &Graph) -> [Variable; 3] {
    let on = |task: usize, work: &dyn Fn() -> Variable| graph.device(format!("/job:ps/task:{task}"), work);
    [
        on(0, &|| graph.variable("a", [1.0f32, 2.0])),
        on(1, &|| graph.new_variable("b").resource().init([[3i32, 4], [5, 6]])),
        on(1, &|| graph.variable("scope/c", 7.0f64)),
    ]
}

fn saves_and_restores(cluster: &Cluster) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model").to_str().unwrap().to_string();
    let graph = Graph::new();
    let [a, b, c] = spread(&graph);
    let change = [a.assign([0.0, 0.0]).unwrap(), c.assign(0.0).unwrap()];
    let savers =
        [Saver::new(&graph).unwrap(), Saver::builder(&graph).sharded(true).max_to_keep(1).build().unwrap()];
    let initialise = graph.global_variables_initializer().unwrap();
    let session = Session::connect(&cluster.target(Job::Worker, 0).unwrap(), &graph).unwrap();
    for (step, saver) in savers.iter().enumerate() {
        session.run(&initialise).unwrap();
        let prefix = saver.save(&session, &path, Some(step as i64)).unwrap();
        session.run(&change).unwrap();
        saver.restore(&session, &prefix).unwrap();
        let (a, b, c) = session.run((&a, &b, &c)).unwrap();
        assert_eq!(a.as_slice::<f32>().unwrap(), [1.0, 2.0]);
        assert_eq!(b.as_slice::<i32>().unwrap(), [3, 4, 5, 6]);
        assert_eq!(c.to_scalar::<f64>().unwrap(), 7.0);
        let reader = CheckpointReader::open(&prefix).unwrap();
        assert_eq!(reader.names(), ["a", "b", "scope/c"]);
        reader.verify().unwrap();
        assert_eq!(latest_checkpoint(directory.path().to_str().unwrap()).unwrap(), Some(prefix));
    }
    // Each parameter server has written a file of its own; a second save leaves nothing of the first.
    savers[1].save(&session, &path, Some(2)).unwrap();
    let names = || {
        directory.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap())
    };
    let mut sharded: Vec<String> = names().filter(|name| !name.starts_with("model-0")).collect();
    sharded.sort();
    assert_eq!(
        sharded,
        [
            "checkpoint",
            "model-2.data-00000-of-00002",
            "model-2.data-00001-of-00002",
            "model-2.index",
            "model-2.meta"
        ]
    );
    // A path that no task can write to.
    let file = directory.path().join("checkpoint/model");
    let status = savers[1].save(&session, file.to_str().unwrap(), None).unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
}

#[test]
fn our_parameter_servers_save_their_own_variables() {
    saves_and_restores(&Cluster::start_ours(2, 1, &[]).unwrap());
}

#[test]
fn parameter_servers_of_tensorflow_save_their_own_variables() {
    let tensorflow = Server::TensorFlow(Interpreter::with_tensorflow_2().unwrap());
    let ps = [tensorflow.clone(), tensorflow.clone()];
    saves_and_restores(&Cluster::start(&ps, &[tensorflow]).unwrap());
}
