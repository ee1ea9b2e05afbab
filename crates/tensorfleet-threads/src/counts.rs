//! [`ThreadCounts`]: how many threads a process asks for.

use tensorfleet_core::{Result, ensure};

/// More threads than this for one purpose mean a mistake.
const MAX_THREADS: i32 = 1024;

/// How many threads run nodes and share loops, in the words of TensorFlow's `ConfigProto`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ThreadCounts {
    /// `None`: one for each core.
    intra_op: Option<usize>,
    inter_op: InterOp,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum InterOp {
    /// One for each core.
    #[default]
    Cores,
    Threads(usize),
    Caller,
}

impl ThreadCounts {
    /// Reads `intra_op_parallelism_threads` and `inter_op_parallelism_threads`; 0 leaves the choice to the process.
    ///
    /// As in TensorFlow a negative `inter_op` has the caller of a step run its nodes, one after another. So does 1: the
    /// caller is a thread, too. Where TensorFlow ends the process, at a negative `intra_op`, or runs out of threads, this is an
    /// error.
    pub fn new(intra_op: i32, inter_op: i32) -> Result<ThreadCounts> {
        ensure!(
            (0..=MAX_THREADS).contains(&intra_op),
            InvalidArgument,
            "intra_op_parallelism_threads must be 0 (one for each core) to {MAX_THREADS}, got {intra_op}"
        );
        ensure!(
            inter_op <= MAX_THREADS,
            InvalidArgument,
            "inter_op_parallelism_threads must be at most {MAX_THREADS} (0: one for each core, negative: the caller's \
             own), got {inter_op}"
        );
        let count = |threads: i32| usize::try_from(threads).ok().filter(|&threads| threads > 0);
        let inter_op = match inter_op {
            0 => InterOp::Cores,
            _ => count(inter_op).map_or(InterOp::Caller, InterOp::Threads),
        };
        Ok(ThreadCounts { intra_op: count(intra_op), inter_op })
    }

    /// How many threads work on one loop.
    pub(crate) fn of_loops(self) -> usize {
        self.intra_op.unwrap_or_else(cores)
    }

    /// How many threads run nodes beside those that wait for a step.
    pub(crate) fn of_nodes(self) -> usize {
        match self.inter_op {
            InterOp::Cores => cores(),
            InterOp::Threads(threads) => threads,
            InterOp::Caller => 1,
        }
    }

    /// Whether nodes of one step run at the same time.
    pub(crate) fn hands_nodes_over(self) -> bool {
        !matches!(self.inter_op, InterOp::Caller | InterOp::Threads(1))
    }
}

/// How many cores this process may use.
pub fn cores() -> usize {
    // A system that does not tell has two at least these days.
    std::thread::available_parallelism().map_or(2, usize::from)
}

#[cfg(test)]
mod tests {
    use tensorfleet_core::Code;

    use super::*;

    #[test]
    fn nothing_said_means_the_cores() {
        let counts = ThreadCounts::new(0, 0).unwrap();
        assert_eq!(counts, ThreadCounts::default());
        assert_eq!((counts.of_loops(), counts.of_nodes()), (cores(), cores()));
    }

    #[test]
    fn what_is_said_counts_and_one_thread_hands_nothing_over() {
        let counts = ThreadCounts::new(3, 5).unwrap();
        assert_eq!((counts.of_loops(), counts.of_nodes(), counts.hands_nodes_over()), (3, 5, true));
        for inter_op in [1, -1, i32::MIN] {
            let counts = ThreadCounts::new(1, inter_op).unwrap();
            assert_eq!((counts.of_loops(), counts.of_nodes(), counts.hands_nodes_over()), (1, 1, false));
        }
    }

    #[test]
    fn absurd_counts_are_refused_by_name() {
        for (intra_op, inter_op, name) in
            [(-1, 0, "intra_op_"), (1 << 20, 0, "intra_op_"), (0, i32::MAX, "inter_op_")]
        {
            let status = ThreadCounts::new(intra_op, inter_op).unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument);
            assert!(status.message().contains(name), "{status}");
        }
    }
}
