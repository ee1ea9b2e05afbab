//! `checkpoint diff`: which tensors two checkpoints share, and how far apart their values are.

use serde_json::{Value, json};
use tensorfleet::checkpoint::{CheckpointReader, TensorInfo};
use tensorfleet_core::{Result, Tensor};

use super::DiffArguments;
use super::files::open;
use super::name_filter::filtered;
use super::numbers::{Numbers, short};
use crate::Failure;
use crate::table::{Column, Table};
use crate::terminal::{self, Color, Terminal};
use crate::units;

/// What two checkpoints do not have in common.
#[derive(Default)]
struct Differences {
    only_first: Vec<String>,
    only_second: Vec<String>,
    /// Tensors of another dtype or shape: name, first, second.
    reshaped: Vec<(String, String, String)>,
    changed: Vec<Change>,
    equal: usize,
}

/// A tensor with other values.
struct Change {
    name: String,
    elements: usize,
    changed: usize,
    /// Largest and mean distance of numbers; strings have none.
    distance: Option<(f64, f64)>,
}

pub(super) fn run(arguments: &DiffArguments) -> Result<(), Failure> {
    let differences = compare(arguments).map_err(Failure::Trouble)?;
    let is_equal = differences.is_equal();
    let text = match arguments.json {
        true => format!("{:#}\n", differences.document()),
        false => differences.text(&Terminal::of_stdout()),
    };
    terminal::print(&text);
    if is_equal { Ok(()) } else { Err(Failure::Exit(1)) }
}

fn compare(arguments: &DiffArguments) -> Result<Differences> {
    let (first, second) = (open(&arguments.first)?, open(&arguments.second)?);
    let mut union: Vec<&TensorInfo> = first.iter().collect();
    union.extend(second.iter().filter(|tensor| first.find(&tensor.name).is_none()));
    union.sort_by(|a, b| a.name.cmp(&b.name));
    let union = filtered(union.into_iter(), arguments.filter.as_ref(), |tensor| &tensor.name)?;
    let mut differences = Differences::default();
    for tensor in union {
        let name = &tensor.name;
        match (first.find(name), second.find(name)) {
            (Some(_), None) => differences.only_first.push(name.clone()),
            (None, _) => differences.only_second.push(name.clone()),
            (Some(a), Some(b)) if (a.dtype, &a.shape) != (b.dtype, &b.shape) => {
                let kind = |tensor: &TensorInfo| format!("{} {}", tensor.dtype, tensor.shape);
                differences.reshaped.push((name.clone(), kind(a), kind(b)));
            }
            (Some(_), Some(_)) => match change(&first, &second, name)? {
                Some(change) => differences.changed.push(change),
                None => differences.equal += 1,
            },
        }
    }
    let size = |change: &Change| change.distance.map_or(f64::INFINITY, |(max, _)| max);
    differences.changed.sort_by(|a, b| size(b).total_cmp(&size(a)).then_with(|| a.name.cmp(&b.name)));
    Ok(differences)
}

/// How a tensor of the same dtype and shape differs; `None` if it does not. Two values are in memory at a time.
fn change(first: &CheckpointReader, second: &CheckpointReader, name: &str) -> Result<Option<Change>> {
    let (a, b) = (first.tensor(name)?, second.tensor(name)?);
    let (changed, distance) = match (Numbers::of(&a)?, Numbers::of(&b)?) {
        (Some(a), Some(b)) => number_change(&a, &b),
        _ => (changed_strings(&a, &b)?, None),
    };
    let elements = a.num_elements();
    let distance = distance.map(|(max, sum)| (max, sum / elements.max(1) as f64));
    Ok((changed > 0).then(|| Change { name: name.to_string(), elements, changed, distance }))
}

fn number_change(a: &Numbers, b: &Numbers) -> (usize, Option<(f64, f64)>) {
    let (mut changed, mut max, mut sum) = (0, 0.0f64, 0.0f64);
    a.for_each_distance(b, |distance| {
        if let Some(distance) = distance {
            changed += 1;
            max = max.max(distance);
            sum += distance;
        }
    });
    (changed, Some((max, sum)))
}

fn changed_strings(a: &Tensor, b: &Tensor) -> Result<usize> {
    Ok(a.as_strings()?.iter().zip(b.as_strings()?).filter(|(a, b)| a != b).count())
}

impl Differences {
    fn is_equal(&self) -> bool {
        self.only_first.is_empty()
            && self.only_second.is_empty()
            && self.reshaped.is_empty()
            && self.changed.is_empty()
    }

    fn document(&self) -> Value {
        let reshaped: Vec<Value> = self
            .reshaped
            .iter()
            .map(|(name, first, second)| json!({ "name": name, "first": first, "second": second }))
            .collect();
        let changed: Vec<Value> = self
            .changed
            .iter()
            .map(|change| {
                // JSON has no infinity; a distance without a number is one to or from NaN or infinity.
                json!({
                    "name": change.name, "elements": change.elements, "changed": change.changed,
                    "max_abs": change.distance.map(|(max, _)| max),
                    "mean_abs": change.distance.map(|(_, mean)| mean),
                })
            })
            .collect();
        json!({
            "equal": self.is_equal(), "only_first": self.only_first, "only_second": self.only_second,
            "different_type": reshaped, "changed": changed, "equal_tensors": self.equal,
        })
    }

    fn text(&self, terminal: &Terminal) -> String {
        let mut sections = Vec::new();
        for (head, names) in
            [("ONLY IN THE FIRST", &self.only_first), ("ONLY IN THE SECOND", &self.only_second)]
        {
            if !names.is_empty() {
                sections.push(format!("{}\n{}\n", terminal.paint(Color::Head, head), names.join("\n")));
            }
        }
        if !self.reshaped.is_empty() {
            let mut table =
                Table::new([Column::text("OTHER TYPE").cut(), Column::text("FIRST"), Column::text("SECOND")]);
            for (name, first, second) in &self.reshaped {
                table.row([name.clone(), first.clone(), second.clone()]);
            }
            sections.push(table.render(terminal));
        }
        if !self.changed.is_empty() {
            sections.push(self.changes(terminal));
        }
        let total = self.equal + self.changed.len() + self.reshaped.len();
        sections.push(match self.is_equal() {
            true => format!("{} equal\n", self.equal_words()),
            false => format!(
                "{} of {} that both have are equal\n",
                units::count(self.equal as u64),
                units::counted(total, "tensor")
            ),
        });
        sections.join("\n")
    }

    fn equal_words(&self) -> String {
        match self.equal {
            1 => "the only tensor is".to_string(),
            equal => format!("all {} tensors are", units::count(equal as u64)),
        }
    }

    fn changes(&self, terminal: &Terminal) -> String {
        let mut table = Table::new([
            Column::text("CHANGED").cut(),
            Column::number("MAX |Δ|"),
            Column::number("MEAN |Δ|").spare(1),
            Column::number("ELEMENTS").spare(2),
            Column::number("OF").spare(0),
        ]);
        for change in &self.changed {
            let (max, mean) = match change.distance {
                Some((max, mean)) => (short(max), short(mean)),
                None => ("-".to_string(), "-".to_string()),
            };
            table.row([
                change.name.clone(),
                max,
                mean,
                units::count(change.changed as u64),
                units::count(change.elements as u64),
            ]);
        }
        table.render(terminal)
    }
}
