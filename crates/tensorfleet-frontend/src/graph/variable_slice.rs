//! [`VariableSlice`]: which part of a partitioned variable a variable holds.
//!
//! A checkpoint knows the whole only: parts are saved under its name, each with a description such as `7 2 3,2:0,2` (a matrix of
//! 7 × 2; from row 3 two rows, from column 0 two columns), and a restore takes out of the whole whatever parts it wants. So a
//! variable may be saved in some parts and restored in others, or as one.

use tensorfleet_core::{Result, Shape, Status, Tensor};
use tensorfleet_proto::tensorflow::SaveSliceInfoDef;

/// A box of a larger tensor, under the name of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VariableSlice {
    full_name: String,
    full_shape: Shape,
    offset: Vec<usize>,
    shape: Shape,
}

impl VariableSlice {
    /// The part of `full_shape` that begins at `start` along `axis` and is `length` long there, and as large as the whole
    /// along the other axes.
    pub(crate) fn along(
        full_name: &str,
        full_shape: &Shape,
        axis: usize,
        start: usize,
        length: usize,
    ) -> Result<VariableSlice> {
        let mut dims = full_shape.to_vec();
        let mut offset = vec![0; dims.len()];
        if let (Some(dim), Some(offset)) = (dims.get_mut(axis), offset.get_mut(axis)) {
            (*dim, *offset) = (length, start);
        }
        let (full_name, full_shape) = (full_name.to_string(), full_shape.clone());
        Ok(VariableSlice { full_name, full_shape, offset, shape: Shape::new(&dims)? })
    }

    pub(crate) fn full_name(&self) -> &str {
        &self.full_name
    }

    pub(crate) fn full_shape(&self) -> &Shape {
        &self.full_shape
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Where it begins and how large it is, as `Slice` takes it.
    pub(crate) fn begin_and_size(&self) -> Result<(Tensor, Tensor)> {
        let vector =
            |numbers: &[usize]| Tensor::vector(&numbers.iter().map(|&n| n as i64).collect::<Vec<_>>());
        Ok((vector(&self.offset)?, vector(&self.shape)?))
    }

    /// The same part of a variable that accompanies the whole.
    pub(crate) fn slot(&self, name: &str) -> VariableSlice {
        VariableSlice { full_name: format!("{}/{name}", self.full_name), ..self.clone() }
    }

    /// As `SaveV2` and `RestoreV2` take it.
    pub(crate) fn spec(&self) -> String {
        let dims: Vec<String> = self.full_shape.iter().map(|dim| dim.to_string()).collect();
        let extents = self.offset.iter().zip(self.shape.iter());
        let extents: Vec<String> = extents.map(|(offset, length)| format!("{offset},{length}")).collect();
        format!("{} {}", dims.join(" "), extents.join(":"))
    }

    pub(crate) fn to_def(&self) -> SaveSliceInfoDef {
        let signed = |sizes: &mut dyn Iterator<Item = usize>| sizes.map(|size| size as i64).collect();
        SaveSliceInfoDef {
            full_name: self.full_name.clone(),
            full_shape: signed(&mut self.full_shape.iter().copied()),
            var_offset: signed(&mut self.offset.iter().copied()),
            var_shape: signed(&mut self.shape.iter().copied()),
        }
    }

    pub(crate) fn from_def(def: &SaveSliceInfoDef) -> Result<VariableSlice> {
        let broken = || {
            Status::data_loss(format!("the part of variable '{}' is not a part of a tensor", def.full_name))
        };
        let sizes = |numbers: &[i64]| -> Result<Vec<usize>> {
            numbers.iter().map(|&number| usize::try_from(number).map_err(|_| broken())).collect()
        };
        let (full, offset, part) = (sizes(&def.full_shape)?, sizes(&def.var_offset)?, sizes(&def.var_shape)?);
        let inside = |((&full, &offset), &part): ((&usize, &usize), &usize)| {
            offset.checked_add(part).is_some_and(|end| end <= full)
        };
        let has_rank = full.len() == offset.len() && full.len() == part.len();
        if !has_rank || !full.iter().zip(&offset).zip(&part).all(inside) {
            return Err(broken());
        }
        let (full_shape, shape) = (Shape::new(&full)?, Shape::new(&part)?);
        Ok(VariableSlice { full_name: def.full_name.clone(), full_shape, offset, shape })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_survives_its_definition_and_says_where_it_is() {
        let whole = Shape::new(&[7, 2]).unwrap();
        let part = VariableSlice::along("v", &whole, 0, 3, 2).unwrap();
        assert_eq!(part.spec(), "7 2 3,2:0,2");
        assert_eq!(part.slot("Adam").full_name(), "v/Adam");
        assert_eq!(VariableSlice::from_def(&part.to_def()).unwrap(), part);
    }

    #[test]
    fn a_part_outside_the_whole_is_refused() {
        let whole = Shape::new(&[7]).unwrap();
        let good = VariableSlice::along("v", &whole, 0, 3, 2).unwrap().to_def();
        for var_offset in [vec![6], vec![-1], vec![i64::MAX], vec![]] {
            assert!(VariableSlice::from_def(&SaveSliceInfoDef { var_offset, ..good.clone() }).is_err());
        }
    }
}
