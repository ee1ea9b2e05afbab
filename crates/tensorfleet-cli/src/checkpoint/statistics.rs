//! What one can say of a tensor's elements in a line: least, largest, mean, spread, and those that are no numbers.

use serde_json::{Value, json};
use tensorfleet_core::{Result, Tensor};

use super::numbers::{Numbers, short};
use crate::units;

/// Statistics of a tensor. Mean and spread are of the finite elements; those of complex numbers are of magnitudes.
pub(super) enum Statistics {
    Numbers(NumberStatistics),
    Strings {
        count: usize,
        bytes: u64,
        longest: usize,
    },
    /// Handles and the like have nothing to count.
    Opaque,
}

#[derive(Default)]
pub(super) struct NumberStatistics {
    count: u64,
    min: Option<f64>,
    max: Option<f64>,
    /// The same exactly, for integers.
    integers: Option<(i128, i128)>,
    mean: f64,
    /// Sum of squared distances from the mean.
    squares: f64,
    zeros: u64,
    nans: u64,
    infinities: u64,
}

impl Statistics {
    pub(super) fn of(tensor: &Tensor) -> Result<Statistics> {
        if let Some(numbers) = Numbers::of(tensor)? {
            let mut statistics = NumberStatistics::default();
            numbers.for_each(|real, integer| statistics.add(real, integer));
            return Ok(Statistics::Numbers(statistics));
        }
        let Ok(strings) = tensor.as_strings() else { return Ok(Statistics::Opaque) };
        Ok(Statistics::Strings {
            count: strings.len(),
            bytes: strings.iter().map(|string| string.len() as u64).sum(),
            longest: strings.iter().map(|string| string.len()).max().unwrap_or(0),
        })
    }

    /// In a line.
    pub(super) fn text(&self) -> String {
        match self {
            Statistics::Numbers(numbers) => numbers.text(),
            Statistics::Strings { count, bytes, longest } => format!(
                "{}, {} in all, the longest has {}",
                units::counted(*count, "string"),
                units::bytes(*bytes),
                units::bytes(*longest as u64)
            ),
            Statistics::Opaque => "no numbers".to_string(),
        }
    }

    pub(super) fn document(&self) -> Value {
        match self {
            Statistics::Numbers(numbers) => numbers.document(),
            Statistics::Strings { count, bytes, longest } => {
                json!({ "count": count, "bytes": bytes, "longest": longest })
            }
            Statistics::Opaque => Value::Null,
        }
    }
}

impl NumberStatistics {
    /// Takes one element into account. The mean moves with each element (Welford's way), so that a large mean does not
    /// swallow a small spread.
    fn add(&mut self, real: f64, integer: Option<i128>) {
        if real.is_nan() {
            self.nans += 1;
            return;
        }
        self.min = Some(self.min.map_or(real, |min| min.min(real)));
        self.max = Some(self.max.map_or(real, |max| max.max(real)));
        if real.is_infinite() {
            self.infinities += 1;
            return;
        }
        if let Some(integer) = integer {
            let (min, max) = self.integers.unwrap_or((integer, integer));
            self.integers = Some((min.min(integer), max.max(integer)));
        }
        self.zeros += u64::from(real == 0.0);
        self.count += 1;
        let from_old = real - self.mean;
        self.mean += from_old / self.count as f64;
        self.squares += from_old * (real - self.mean);
    }

    fn std(&self) -> f64 {
        (self.squares / self.count.max(1) as f64).sqrt()
    }

    fn text(&self) -> String {
        let (Some(min), Some(max)) = (self.min, self.max) else {
            return match self.nans {
                0 => "no elements".to_string(),
                nans => format!("all {nans} elements are NaN"),
            };
        };
        let (min, max) = match self.integers {
            Some((min, max)) => (min.to_string(), max.to_string()),
            None => (short(min), short(max)),
        };
        let mut text = format!("min {min}, max {max}");
        if self.count > 0 {
            text.push_str(&format!(", mean {}, std {}", short(self.mean), short(self.std())));
        }
        for (count, what) in [(self.zeros, "zero"), (self.nans, "NaN"), (self.infinities, "Inf")] {
            if count > 0 || what != "zero" {
                text.push_str(&format!(", {} {what}", units::count(count)));
            }
        }
        text
    }

    fn document(&self) -> Value {
        let (min, max) = match self.integers {
            // JSON's readers know integers of 64 bits.
            Some((min, max)) => (integer(min), integer(max)),
            None => (json!(self.min), json!(self.max)),
        };
        let known = self.count > 0;
        json!({
            "min": min, "max": max,
            "mean": known.then_some(self.mean), "std": known.then(|| self.std()),
            "zeros": self.zeros, "nans": self.nans, "infinities": self.infinities,
        })
    }
}

fn integer(value: i128) -> Value {
    match (i64::try_from(value), u64::try_from(value)) {
        (Ok(value), _) => json!(value),
        (_, Ok(value)) => json!(value),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(tensor: Tensor) -> String {
        Statistics::of(&tensor).unwrap().text()
    }

    #[test]
    fn statistics_leave_out_what_is_no_number() {
        let tensor = Tensor::vector(&[1.0f32, f32::NAN, 3.0, 0.0, f32::INFINITY]).unwrap();
        assert_eq!(text(tensor), "min 0, max inf, mean 1.33333, std 1.24722, 1 zero, 1 NaN, 1 Inf");
        assert_eq!(text(Tensor::vector(&[f32::NAN]).unwrap()), "all 1 elements are NaN");
        assert_eq!(text(Tensor::vector::<f32>(&[]).unwrap()), "no elements");
    }

    #[test]
    fn integers_are_exact() {
        let text = text(Tensor::vector(&[i64::MAX, 1]).unwrap());
        assert!(text.starts_with("min 1, max 9223372036854775807, mean 4.6117e18"), "{text}");
    }

    #[test]
    fn strings_are_counted() {
        let tensor = Tensor::from_strings(vec!["".into(), "abc".into()], &[2]).unwrap();
        assert_eq!(text(tensor), "2 strings, 3 B in all, the longest has 3 B");
    }
}
