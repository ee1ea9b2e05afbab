//! What TensorFlow's client does with a step before a session sees it.
//!
//! Cases record what a Python program asked for and got back. The client answers some of that itself: a fetch
//! that is also fed is the fed value (a master would refuse it), and a fetch without an output number is a node to
//! run. Cases in raw mode are meant for a master as they stand and bypass this.

use tensorfleet_core::{Result, Tensor};

use crate::backend::{RunRequest, Session};

/// Runs a step as a client would.
pub fn run_as_client(session: &dyn Session, request: &RunRequest) -> Result<Vec<Tensor>> {
    let fed =
        |name: &String| request.feeds.iter().find(|(feed, _)| feed == name).map(|(_, value)| value.clone());
    let (mut fetches, mut targets) = (Vec::new(), request.targets.clone());
    for name in request.fetches.iter().filter(|name| fed(name).is_none()) {
        if name.contains(':') { fetches.push(name.clone()) } else { targets.push(name.clone()) }
    }
    let mut fetched = Vec::new().into_iter();
    if !fetches.is_empty() || !targets.is_empty() {
        let request = RunRequest { feeds: request.feeds.clone(), fetches, targets, timeout: request.timeout };
        fetched = session.run(&request)?.into_iter();
    }
    Ok(request.fetches.iter().filter_map(|name| fed(name).or_else(|| fetched.next())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use tensorfleet_proto::tensorflow::GraphDef;

    /// Answers every fetch with its position, and remembers what it was asked.
    #[derive(Default)]
    struct Recorder(Mutex<Vec<RunRequest>>);

    impl Session for Recorder {
        fn extend(&self, _: GraphDef, _: Option<i64>) -> Result<()> {
            Ok(())
        }

        fn run(&self, request: &RunRequest) -> Result<Vec<Tensor>> {
            self.0.lock().push(request.clone());
            Ok((0..request.fetches.len()).map(|index| Tensor::scalar(index as i32)).collect())
        }

        fn close(&self) -> Result<()> {
            Ok(())
        }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn a_fed_fetch_is_answered_by_the_client_and_a_node_becomes_a_target() {
        let session = Recorder::default();
        let request = RunRequest {
            feeds: vec![("x:0".into(), Tensor::scalar(9i32))],
            fetches: names(&["a:0", "x:0", "b:1"]),
            targets: names(&["t"]),
            timeout: None,
        };
        let values = run_as_client(&session, &request).unwrap();
        assert_eq!(values, [Tensor::scalar(0i32), Tensor::scalar(9i32), Tensor::scalar(1i32)]);
        run_as_client(&session, &RunRequest { fetches: names(&["op"]), ..request }).unwrap();
        let asked = session.0.lock();
        assert_eq!((&asked[0].fetches, &asked[0].targets), (&names(&["a:0", "b:1"]), &names(&["t"])));
        assert_eq!((&asked[1].fetches, &asked[1].targets), (&Vec::new(), &names(&["t", "op"])));
    }

    #[test]
    fn a_step_that_asks_for_nothing_is_not_run() {
        let session = Recorder::default();
        let feeds = vec![("x:0".to_string(), Tensor::scalar(9i32))];
        let request = RunRequest { feeds, fetches: names(&["x:0"]), ..RunRequest::default() };
        assert_eq!(run_as_client(&session, &request).unwrap(), [Tensor::scalar(9i32)]);
        assert!(session.0.lock().is_empty());
    }
}
