//! `checkpoint show`: the tensors of a checkpoint, and the values of some.

use serde_json::{Value, json};
use tensorfleet::checkpoint::{CheckpointReader, TensorInfo};
use tensorfleet_core::{DType, Result};

use super::ShowArguments;
use super::files::open;
use super::name_filter::filtered;
use super::statistics::Statistics;

use crate::table::{Column, Table, wrapped};
use crate::terminal::{self, Color, Terminal};
use crate::units;

pub(super) fn run(arguments: &ShowArguments) -> Result<()> {
    let reader = open(&arguments.checkpoint)?;
    let tensors = filtered(reader.iter(), arguments.filter.as_ref(), |tensor| &tensor.name)?;
    // A name that is not there is an error before anything is printed.
    for name in &arguments.values {
        reader.dtype(name)?;
    }
    if arguments.json {
        terminal::print(&format!("{:#}\n", document(&reader, &tensors, &arguments.values)?));
        return Ok(());
    }
    let terminal = Terminal::of_stdout();
    // Values alone are wanted by who names some.
    if arguments.values.is_empty() || arguments.filter.is_some() {
        terminal::print(&table(&reader, &tensors, &terminal)?);
    }
    for (at, name) in arguments.values.iter().enumerate() {
        let gap = if at > 0 || arguments.filter.is_some() { "\n" } else { "" };
        terminal::print(&format!("{gap}{}", value(&reader, name, &terminal)?));
    }
    Ok(())
}

/// The bytes of a tensor's value; strings have as many as they like, which the index does not tell.
pub(super) fn value_bytes(tensor: &TensorInfo) -> Option<u64> {
    let size = tensor.dtype.size()? as u64;
    (tensor.shape.num_elements() as u64).checked_mul(size)
}

/// How many numbers a tensor holds.
fn parameters(tensor: &TensorInfo) -> u64 {
    if tensor.dtype.is_plain() { tensor.shape.num_elements() as u64 } else { 0 }
}

fn table(reader: &CheckpointReader, tensors: &[&TensorInfo], terminal: &Terminal) -> Result<String> {
    let mut table = Table::new([
        Column::text("TENSOR").cut(),
        Column::text("DTYPE").spare(2),
        Column::text("SHAPE"),
        Column::number("NUMBERS").spare(1),
        Column::number("BYTES"),
        Column::text("").spare(0),
    ]);
    for tensor in tensors {
        let parts = reader.slices(&tensor.name)?.len();
        table.row([
            tensor.name.clone(),
            tensor.dtype.to_string(),
            tensor.shape.to_string(),
            units::count(parameters(tensor)),
            value_bytes(tensor).map_or_else(|| "-".to_string(), units::bytes),
            if parts > 0 { format!("in {parts} parts") } else { String::new() },
        ]);
    }
    let total: u64 = tensors.iter().filter_map(|tensor| value_bytes(tensor)).sum();
    let numbers: u64 = tensors.iter().map(|tensor| parameters(tensor)).sum();
    let of = match reader.iter().len() {
        all if all == tensors.len() => String::new(),
        all => format!(" of {all}"),
    };
    let strings = tensors.iter().filter(|tensor| tensor.dtype == DType::String).count();
    let and = if strings > 0 {
        format!(", and {}", units::counted(strings, "tensor") + " of strings")
    } else {
        String::new()
    };
    Ok(format!(
        "{}\n\n{}\n{}",
        terminal.paint(Color::Head, reader.prefix()),
        table.render(terminal),
        wrapped(
            &format!(
                "{}{of}: {} numbers, {}{and}",
                units::counted(tensors.len(), "tensor"),
                units::count(numbers),
                units::bytes(total)
            ),
            terminal.width(),
            ""
        )
    ))
}

fn value(reader: &CheckpointReader, name: &str, terminal: &Terminal) -> Result<String> {
    let tensor = reader.tensor(name)?;
    let head = format!("{} {} {}", name, tensor.dtype(), tensor.shape());
    let statistics = Statistics::of(&tensor)?.text();
    Ok(format!(
        "{}\n{}{}\n",
        terminal.paint(Color::Head, &head),
        wrapped(&statistics, terminal.width(), "  "),
        tensor
    ))
}

fn document(reader: &CheckpointReader, tensors: &[&TensorInfo], values: &[String]) -> Result<Value> {
    let mut list = Vec::new();
    for tensor in tensors {
        let mut entry = json!({
            "name": tensor.name,
            "dtype": tensor.dtype.name(),
            "shape": tensor.shape.dims(),
            "bytes": value_bytes(tensor),
        });
        let slices = reader.slices(&tensor.name)?;
        if !slices.is_empty() {
            entry["slices"] = json!(slices);
        }
        list.push(entry);
    }
    let mut document = json!({
        "checkpoint": reader.prefix(),
        "tensors": list,
        "numbers": tensors.iter().map(|tensor| parameters(tensor)).sum::<u64>(),
        "bytes": tensors.iter().filter_map(|tensor| value_bytes(tensor)).sum::<u64>(),
    });
    if !values.is_empty() {
        let mut shown = serde_json::Map::new();
        for name in values {
            let tensor = reader.tensor(name)?;
            let entry = json!({
                "dtype": tensor.dtype().name(), "shape": tensor.shape().dims(),
                "statistics": Statistics::of(&tensor)?.document(),
            });
            shown.insert(name.clone(), entry);
        }
        document["values"] = Value::Object(shown);
    }
    Ok(document)
}
