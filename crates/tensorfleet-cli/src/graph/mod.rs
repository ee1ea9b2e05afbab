//! `tensorfleet graph`: what a graph consists of, and a picture of it.

mod collapse;
mod dot;
mod layout;
mod model;
mod palette;
mod shapes;
mod source;
mod summary;
mod svg;
mod volume;

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use tensorfleet_core::{Result, Status};
use tensorfleet_files::{AtomicFile, FileAccess};

use crate::terminal::{self, Color, Terminal};
use crate::units;
use collapse::{Drawing, Show, collapse};
use model::Model;
use source::Source;
use summary::Summary;

pub(crate) const HELP: &str = "\
FILE is a GraphDef (.pb), a meta graph (the .meta file of a checkpoint), a saved model, an event file, or a directory, which \
means the newest of these in it. The summary counts ops, devices and variables, and what travels between devices.

Examples:
  tensorfleet graph logs
  tensorfleet graph logs/model.ckpt-700.meta --batch 100
  tensorfleet graph logs --svg graph.svg
  tensorfleet graph logs --depth 2 --dot - | dot -Tpdf > graph.pdf
  tensorfleet graph logs --json | jq '.across_devices'

In pictures every name scope on a device is one box, parameter servers are warm colours, tensors that travel between \
devices are red, and lines are as thick as what flows through them. Hover to see more.";

/// Arguments of `graph`.
#[derive(Args, Debug)]
pub(crate) struct GraphArguments {
    /// A file with a graph, or the directory of a training.
    file: PathBuf,

    /// How large unknown dimensions are, which are the batch as a rule.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    batch: Option<u32>,

    /// How many rows each table has.
    #[arg(long, value_name = "N", default_value_t = 12)]
    top: u32,

    /// Write a picture; '-' is standard output.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Write a picture's description for Graphviz; '-' is standard output.
    #[arg(long, value_name = "FILE")]
    dot: Option<PathBuf>,

    /// How many levels of name scopes are told apart in pictures.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    depth: u8,

    /// Also draw what saves and initializes variables.
    #[arg(long)]
    all: bool,

    /// The summary as JSON.
    #[arg(long, conflicts_with_all = ["svg", "dot"])]
    json: bool,
}

pub(crate) fn run(arguments: &GraphArguments) -> Result<()> {
    let source = source::read(&arguments.file)?;
    let model = Model::of(&source.graph, arguments.batch.map(u64::from));
    if arguments.svg.is_none() && arguments.dot.is_none() {
        summarize(arguments, &source, &model);
        return Ok(());
    }
    let show = if arguments.all { Show::Everything } else { Show::Model };
    let drawing = collapse(&model, usize::from(arguments.depth), show);
    let name =
        source.path.file_name().map_or_else(|| source.path.to_string_lossy(), |name| name.to_string_lossy());
    if let Some(path) = &arguments.dot {
        write(path, &dot::render(&drawing, &name), &drawing)?;
    }
    if let Some(path) = &arguments.svg {
        let subtitle = format!(
            "{} in {}, {}, {}",
            units::counted(model.nodes.len(), "node"),
            boxes(&drawing),
            units::counted(model.edges.len(), "edge"),
            units::counted(model.devices.len(), "device")
        );
        write(path, &svg::render(&drawing, &name, &subtitle), &drawing)?;
    }
    Ok(())
}

fn summarize(arguments: &GraphArguments, source: &Source, model: &Model) {
    let summary = Summary::of(model, arguments.top as usize);
    if arguments.json {
        let mut document = summary.document();
        document["file"] = json!(source.path.to_string_lossy());
        document["kind"] = json!(source.kind);
        document["batch"] = json!(arguments.batch);
        terminal::print(&format!("{document:#}\n"));
        return;
    }
    let terminal = Terminal::of_stdout();
    let head = terminal.paint(Color::Head, &source.path.to_string_lossy());
    terminal::print(&format!("{head} ({})\n{}", source.kind, summary.text(&terminal)));
}

/// Writes a picture to a file, which appears complete or not at all, or to standard output.
fn write(path: &Path, text: &str, drawing: &Drawing) -> Result<()> {
    if let Some(note) = &drawing.note {
        terminal::tell(&format!("note: {note}"));
    }
    if path == Path::new("-") {
        terminal::print(text);
        return Ok(());
    }
    terminal::check_output(path)?;
    let failed = |status: Status| {
        Status::new(
            status.code(),
            format!(
                "{} cannot be written ({}); name a file in a directory you may write to",
                path.display(),
                status.text()
            ),
        )
    };
    let mut file = AtomicFile::create(&FileAccess::EVERYWHERE, path).map_err(failed)?;
    file.write(text.as_bytes()).and_then(|()| file.commit()).map_err(failed)?;
    let links = units::counted(drawing.links.len(), "link");
    terminal::tell(&format!("{}: {}, {links}", path.display(), boxes(drawing)));
    Ok(())
}

fn boxes(drawing: &Drawing) -> String {
    match drawing.boxes.len() {
        1 => "1 box".to_string(),
        count => format!("{count} boxes"),
    }
}
