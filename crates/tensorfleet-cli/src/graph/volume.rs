//! [`Volume`]: how many bytes tensors take whose shapes may be known only in part.

use std::ops::AddAssign;

use serde_json::{Value, json};
use tensorfleet_core::{DType, PartialShape};

use crate::units;

/// Bytes of some tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Volume {
    /// Of tensors whose size is known.
    pub(super) known: u64,
    /// Of tensors with unknown dimensions, if each of these were 1: bytes for each example of a batch, as a rule.
    pub(super) per_unit: u64,
    /// Tensors of which nothing is known.
    pub(super) unknown: u64,
}

impl Volume {
    /// One tensor; unknown dimensions have the size `batch` if one is given.
    pub(super) fn of(dtype: DType, shape: &PartialShape, batch: Option<u64>) -> Volume {
        // What travels instead of a resource is its name.
        if dtype == DType::Resource {
            return Volume::default();
        }
        let bytes = || {
            let mut bytes = dtype.size()? as u64;
            for dim in shape.dims()? {
                let size = dim.map_or(batch.unwrap_or(1), |size| size as u64);
                bytes = bytes.checked_mul(size)?;
            }
            Some(bytes)
        };
        let is_known = batch.is_some() || shape.dims().is_some_and(|dims| dims.iter().all(Option::is_some));
        match (bytes(), is_known) {
            (None, _) => Volume { unknown: 1, ..Volume::default() },
            (Some(known), true) => Volume { known, ..Volume::default() },
            (Some(per_unit), false) => Volume { per_unit, ..Volume::default() },
        }
    }

    /// A single number to compare by.
    pub(super) fn weight(&self) -> u64 {
        self.known.saturating_add(self.per_unit)
    }

    /// For people: `318 KB + 40 B/unit`.
    pub(super) fn text(&self) -> String {
        let mut parts = Vec::new();
        if self.known > 0 || (self.per_unit == 0 && self.unknown == 0) {
            parts.push(units::bytes(self.known));
        }
        if self.per_unit > 0 {
            parts.push(format!("{}/unit", units::bytes(self.per_unit)));
        }
        if self.unknown > 0 {
            parts.push(format!("{} unknown", units::count(self.unknown)));
        }
        parts.join(" + ")
    }

    pub(super) fn document(&self) -> Value {
        json!({ "bytes": self.known, "bytes_per_unit": self.per_unit, "tensors_of_unknown_size": self.unknown })
    }
}

impl AddAssign for Volume {
    fn add_assign(&mut self, other: Volume) {
        self.known = self.known.saturating_add(other.known);
        self.per_unit = self.per_unit.saturating_add(other.per_unit);
        self.unknown += other.unknown;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_dimensions_are_counted_per_unit_unless_a_batch_is_given() {
        let shape = PartialShape::from_signed(&[-1, 784]).unwrap();
        assert_eq!(Volume::of(DType::Float, &shape, None).text(), "3.1 KB/unit");
        assert_eq!(Volume::of(DType::Float, &shape, Some(100)).text(), "314 KB");
        assert_eq!(Volume::of(DType::Float, &PartialShape::unknown(), Some(100)).text(), "1 unknown");
        assert_eq!(Volume::of(DType::Resource, &PartialShape::scalar(), None).text(), "0 B");
        assert_eq!(Volume::of(DType::String, &PartialShape::scalar(), None).unknown, 1);
        let huge = PartialShape::from_signed(&[1 << 40, -1]).unwrap();
        assert_eq!(Volume::of(DType::Double, &huge, Some(1 << 40)).unknown, 1, "an overflow is no size");
    }

    #[test]
    fn sums_name_their_parts() {
        let mut volume = Volume { known: 1500, per_unit: 40, unknown: 1 };
        volume += Volume { known: 500, per_unit: 0, unknown: 2 };
        assert_eq!(volume.text(), "2.0 KB + 40 B/unit + 3 unknown");
    }
}
