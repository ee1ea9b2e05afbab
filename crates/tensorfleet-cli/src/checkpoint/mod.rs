//! `tensorfleet checkpoint`: looks into checkpoints, ours and TensorFlow's, without a graph and without TensorFlow.

mod diff;
mod export;
mod files;
mod list;
mod name_filter;
mod npy;
mod numbers;
mod show;
mod statistics;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::Failure;
use name_filter::NameFilter;

pub(crate) const HELP: &str = "\
A checkpoint is named by its prefix (logs/model.ckpt-700), by one of its files (logs/model.ckpt-700.index), or by its \
directory, which means the newest one in it.

Examples:
  tensorfleet checkpoint ls logs
  tensorfleet checkpoint show logs
  tensorfleet checkpoint show logs/model.ckpt-700 --values hid_w
  tensorfleet checkpoint diff logs/model.ckpt-0 logs/model.ckpt-700
  tensorfleet checkpoint export logs weights.npz --filter '*/Adam*'";

/// Arguments of `checkpoint`.
#[derive(Args, Debug)]
pub(crate) struct CheckpointArguments {
    #[command(subcommand)]
    command: CheckpointCommand,
}

#[derive(Subcommand, Debug)]
enum CheckpointCommand {
    /// List the checkpoints of a directory.
    #[command(visible_alias = "list", after_help = LIST_HELP)]
    Ls(ListArguments),
    /// Show the tensors of a checkpoint.
    #[command(after_help = SHOW_HELP)]
    Show(ShowArguments),
    /// Compare two checkpoints.
    #[command(after_help = DIFF_HELP)]
    Diff(DiffArguments),
    /// Write the tensors of a checkpoint to a file that numpy reads.
    #[command(after_help = EXPORT_HELP)]
    Export(ExportArguments),
}

const LIST_HELP: &str = "\
The highest step comes first, and of equal ones the newest. One that lacks a part, because a run was ended while it saved or \
because files were deleted, is named with what it lacks; training resumes from the newest that is complete.

Examples:
  tensorfleet checkpoint ls logs
  tensorfleet checkpoint ls logs --json | jq -r .newest";

#[derive(Args, Debug)]
struct ListArguments {
    /// The directory that a training saves to.
    directory: PathBuf,

    /// The list as JSON.
    #[arg(long)]
    json: bool,
}

const SHOW_HELP: &str = "\
Examples:
  tensorfleet checkpoint show logs
  tensorfleet checkpoint show logs/model.ckpt-700 --filter 'hid_*'
  tensorfleet checkpoint show logs --values hid_w --values global_step
  tensorfleet checkpoint show logs --json | jq '.tensors[] | select(.bytes > 1000000) | .name'";

#[derive(Args, Debug)]
struct ShowArguments {
    /// A prefix, one of its files, or a directory.
    checkpoint: PathBuf,

    /// Only tensors whose name contains this, or fits it if it has a '*' or '?'.
    #[arg(long, value_name = "TEXT")]
    filter: Option<NameFilter>,

    /// Least, largest and mean values of this tensor, and some of its elements, instead of the list (with --filter: below it); may be
    /// repeated.
    #[arg(long, value_name = "NAME")]
    values: Vec<String>,

    /// The list as JSON.
    #[arg(long)]
    json: bool,
}

const DIFF_HELP: &str = "\
Tensors that changed most come first. NaN counts as equal to NaN.

Examples:
  tensorfleet checkpoint diff logs/model.ckpt-0 logs/model.ckpt-700
  tensorfleet checkpoint diff run1 run2 --filter hid_w
  tensorfleet checkpoint diff run1 run2 --json | jq '.changed[0]'

Exit codes: 0 equal, 1 different, 2 trouble.";

#[derive(Args, Debug)]
struct DiffArguments {
    /// A prefix, one of its files, or a directory.
    first: PathBuf,

    /// What it is compared with.
    second: PathBuf,

    /// Only tensors whose name contains this, or fits it if it has a '*' or '?'.
    #[arg(long, value_name = "TEXT")]
    filter: Option<NameFilter>,

    /// The differences as JSON.
    #[arg(long)]
    json: bool,
}

const EXPORT_HELP: &str = "\
The file is read with numpy.load(FILE)[NAME]. numpy has no bfloat16: such tensors become float32. Strings become byte \
strings of one length ('S'); numpy cuts zero bytes off their ends, so tensors with strings that have some are left out.

Examples:
  tensorfleet checkpoint export logs weights.npz
  tensorfleet checkpoint export logs/model.ckpt-700 adam.npz --filter '*/Adam*'
  python3 -c \"import numpy; print(numpy.load('weights.npz')['hid_w'].mean())\"";

#[derive(Args, Debug)]
struct ExportArguments {
    /// A prefix, one of its files, or a directory.
    checkpoint: PathBuf,

    /// The file to write.
    #[arg(value_name = "OUT.npz")]
    out: PathBuf,

    /// Only tensors whose name contains this, or fits it if it has a '*' or '?'.
    #[arg(long, value_name = "TEXT")]
    filter: Option<NameFilter>,

    /// Replace the file if it is there.
    #[arg(long)]
    force: bool,

    /// What was written as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &CheckpointArguments) -> Result<(), Failure> {
    match &arguments.command {
        CheckpointCommand::Ls(arguments) => Ok(list::run(arguments)?),
        CheckpointCommand::Show(arguments) => Ok(show::run(arguments)?),
        CheckpointCommand::Diff(arguments) => diff::run(arguments),
        CheckpointCommand::Export(arguments) => Ok(export::run(arguments)?),
    }
}
