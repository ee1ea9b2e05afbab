//! Where the variants of random nodes come from: lists, optional values, datasets in chains, and iterators over them.

use tensorfleet_core::attr::IntoAttr;
use tensorfleet_core::{DType, PartialShape};
use tensorfleet_proto::tensorflow::AttrValue;

use crate::random_node::Builder;

/// Datasets that are made of another one and little else, which is what chains are made of.
const LINKS: &[&str] = &[
    "TakeDataset",
    "SkipDataset",
    "RepeatDataset",
    "BatchDatasetV2",
    "ShuffleDataset",
    "PrefetchDataset",
    "ConcatenateDataset",
    "UnbatchDataset",
    "CacheDataset",
    "ShardDataset",
    "WindowDataset",
    "MapDataset",
    "ParallelMapDatasetV2",
    "FilterDataset",
    "FlatMapDataset",
    "ScanDataset",
];

/// Chains are no longer than this.
const MAX_DEPTH: usize = 3;

impl Builder<'_> {
    /// A node that makes a variant of the kind that `op` wants, mostly.
    pub(crate) fn variant(&mut self, op: &str) -> Option<String> {
        let kinds: [fn(&mut Self) -> Option<String>; 4] =
            [Self::list, Self::optional, Self::dataset, Self::deleter];
        let wanted = match op {
            _ if op.starts_with("TensorList") => 0,
            _ if op.starts_with("Optional") => 1,
            _ if op.starts_with("Delete") => 3,
            _ if op.contains("Dataset") || op.contains("Iterator") => 2,
            _ => self.choices.below(kinds.len()),
        };
        let chosen = if self.choices.below(20) == 0 { self.choices.below(kinds.len()) } else { wanted };
        kinds[chosen](self)
    }

    fn list(&mut self) -> Option<String> {
        let makers = ["EmptyTensorList", "TensorListReserve", "TensorListFromTensor", "TensorListPushBack"];
        let maker = *self.choices.one_of(if self.depth < MAX_DEPTH { &makers[..] } else { &makers[..3] });
        self.any(maker)
    }

    fn optional(&mut self) -> Option<String> {
        let maker = *self.choices.one_of(&["OptionalNone", "OptionalFromValue", "OptionalFromValue"]);
        self.any(maker)
    }

    /// What deletes something that has no name.
    fn deleter(&mut self) -> Option<String> {
        let maker = *self.choices.one_of(&["AnonymousIteratorV2", "AnonymousSeedGenerator"]);
        Some(format!("{}:1", self.any(maker)?))
    }

    fn dataset(&mut self) -> Option<String> {
        if self.depth < MAX_DEPTH && self.choices.below(2) == 0 {
            let link = *self.choices.one_of(LINKS);
            return self.any(link);
        }
        match self.choices.below(4) {
            0 => self.any("RangeDataset"),
            1 => self.any("TensorDataset"),
            _ => self.any("TensorSliceDataset"),
        }
    }

    /// A handle of an iterator, which begins before the node runs.
    pub(crate) fn iterator(&mut self) -> Option<String> {
        let typed = self.element_attrs();
        let name = self.fresh();
        self.node(&name, "IteratorV2", Vec::new(), typed);
        let dataset = self.dataset()?;
        let make = self.fresh();
        self.node(&make, "MakeIterator", vec![dataset, name.clone()], Vec::new());
        self.made.before.push(make);
        Some(name)
    }

    fn element_attrs(&mut self) -> Vec<(String, AttrValue)> {
        let shapes = vec![PartialShape::unknown(); self.element.len()];
        vec![
            ("output_types".to_string(), self.element.clone().into_attr()),
            ("output_shapes".to_string(), shapes.into_attr()),
            ("shared_name".to_string(), "".into_attr()),
            ("container".to_string(), "".into_attr()),
        ]
    }

    /// What the datasets of this graph hold, mostly.
    pub(crate) fn choose_element(&mut self) {
        let one = *self.choices.one_of(&[DType::Int64, DType::Int64, DType::Float, DType::String]);
        self.element = vec![one; 1 + usize::from(self.choices.below(4) == 0)];
    }
}
