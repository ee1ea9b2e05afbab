//! [`DefaultPlacement`]: where a node goes that fits several tasks.
//!
//! TensorFlow has changed its mind. In 1.15 the first task by name is taken: `/job:ps/task:0` where there is a ps, whichever
//! server the session is on; so the variables of a program that says no job at all are shared by its workers. In 2.21 it is
//! the session's own task, if that fits. Programs rely on what their TensorFlow did, and a server cannot ask them; but each
//! graph says which version made it.

use std::str::FromStr;

use tensorfleet_core::{Status, bail};
use tensorfleet_proto::tensorflow::VersionDef;

/// What TensorFlow 1.15.5, the last of 1.x, writes into its graphs. 2.0 was cut from the same code some weeks before.
const LAST_OF_TENSORFLOW_1: i32 = 134;

/// Where nodes go that fit several tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultPlacement {
    /// As the TensorFlow that has made the graph places them: [`DefaultPlacement::FirstTask`] for graphs of 1.x, else
    /// [`DefaultPlacement::OwnTask`].
    #[default]
    AsTheClient,
    /// On the session's own task, the one whose server the client is connected to; otherwise on the first by name.
    OwnTask,
    /// On the first task by name.
    FirstTask,
}

impl DefaultPlacement {
    /// Whether the own task comes before all others, for a graph that says this of its origin. One that says nothing was made by
    /// no TensorFlow.
    pub(crate) fn prefers_own_task(self, versions: Option<&VersionDef>) -> bool {
        let producer = versions.map_or(0, |versions| versions.producer);
        match self {
            DefaultPlacement::AsTheClient => !(1..=LAST_OF_TENSORFLOW_1).contains(&producer),
            DefaultPlacement::OwnTask => true,
            DefaultPlacement::FirstTask => false,
        }
    }
}

impl FromStr for DefaultPlacement {
    type Err = Status;

    fn from_str(text: &str) -> Result<DefaultPlacement, Status> {
        Ok(match text {
            "client" => DefaultPlacement::AsTheClient,
            "own-task" => DefaultPlacement::OwnTask,
            "first-task" => DefaultPlacement::FirstTask,
            _ => bail!(InvalidArgument, "expected client, own-task or first-task"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_of_tensorflow_1_share_the_first_task_unless_the_server_says_otherwise() {
        let own = |placement: DefaultPlacement, producer| {
            let versions = VersionDef { producer, ..Default::default() };
            placement.prefers_own_task(Some(&versions))
        };
        for (producer, expected) in [(21, false), (134, false), (135, true), (2474, true), (0, true)] {
            assert_eq!(own("client".parse().unwrap(), producer), expected, "{producer}");
            assert!(own("own-task".parse().unwrap(), producer));
            assert!(!own("first-task".parse().unwrap(), producer));
        }
        assert!(DefaultPlacement::default().prefers_own_task(None));
        assert!("ps".parse::<DefaultPlacement>().is_err());
    }
}
