//! The lookup table ops, each with a string handle (its first form) and with a resource handle (its second).

use tensorfleet_core::{DType, PartialShape, Result, Shape, Status, Tensor, ensure};

use super::naming::{Owner, handle_shape, no_outputs};
use super::table::{Kind, Table};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::{ShapeContext, scalars, unknown};

const ATTRS: &str = "container: string = ''; shared_name: string = ''; use_node_name_sharing: bool = false; \
                     key_dtype: type; value_dtype: type";
const SHAPED_ATTRS: &str = "container: string = ''; shared_name: string = ''; \
                            use_node_name_sharing: bool = false; key_dtype: type; value_dtype: type; \
                            value_shape: shape = []";

const fn maker(name: &'static str, signature: &'static str, attrs: &'static str) -> Op {
    Op::new(name, signature).attrs(attrs).stateful().shape(handle_shape).cost(Cost::Trivial)
}

const STRINGS: &str = "-> table_handle: Ref(string)";
const RESOURCE: &str = "-> table_handle: resource";

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    maker("HashTable", STRINGS, ATTRS)
        .not_differentiable()
        .kernel(|node| make(node, Kind::Initializable, false)),
    maker("HashTableV2", RESOURCE, ATTRS)
        .not_differentiable()
        .kernel(|node| make(node, Kind::Initializable, false)),
    maker("MutableHashTable", STRINGS, ATTRS)
        .not_differentiable()
        .kernel(|node| make(node, Kind::Mutable, false)),
    maker("MutableHashTableV2", RESOURCE, ATTRS)
        .not_differentiable()
        .kernel(|node| make(node, Kind::Mutable, false)),
    maker("MutableHashTableOfTensors", STRINGS, SHAPED_ATTRS)
        .not_differentiable()
        .kernel(|node| make(node, Kind::Mutable, true)),
    maker("MutableHashTableOfTensorsV2", RESOURCE, SHAPED_ATTRS)
        .not_differentiable()
        .kernel(|node| make(node, Kind::Mutable, true)),
    Op::new("InitializeTable", "table_handle: Ref(string), keys: Tkey, values: Tval")
        .work(Work::Inputs)
        .not_differentiable()
        .attrs("Tkey: type; Tval: type")
        .shape(no_outputs)
        .kernel(initialize),
    Op::new("InitializeTableV2", "table_handle: resource, keys: Tkey, values: Tval")
        .work(Work::Inputs)
        .not_differentiable()
        .attrs("Tkey: type; Tval: type")
        .stateful()
        .shape(no_outputs)
        .kernel(initialize),
    Op::new("LookupTableFind", "table_handle: Ref(string), keys: Tin, default_value: Tout -> values: Tout")
        .work(Work::Inputs)
        .not_differentiable()
        .attrs("Tin: type; Tout: type")
        .shape(find_shape)
        .kernel(find),
    Op::new("LookupTableFindV2", "table_handle: resource, keys: Tin, default_value: Tout -> values: Tout")
        .work(Work::Inputs)
        .not_differentiable()
        .attrs("Tin: type; Tout: type")
        .stateful()
        .shape(find_shape)
        .kernel(find),
    change("LookupTableImport", "table_handle: Ref(string), keys: Tin, values: Tout")
        .kernel(|_| changing(Table::import)),
    change("LookupTableImportV2", "table_handle: resource, keys: Tin, values: Tout")
        .stateful()
        .kernel(|_| changing(Table::import)),
    change("LookupTableInsert", "table_handle: Ref(string), keys: Tin, values: Tout")
        .not_differentiable()
        .kernel(|_| changing(Table::insert)),
    change("LookupTableInsertV2", "table_handle: resource, keys: Tin, values: Tout")
        .not_differentiable()
        .stateful()
        .kernel(|_| changing(Table::insert)),
    Op::new("LookupTableRemoveV2", "table_handle: resource, keys: Tin")
        .work(Work::Inputs)
        .attrs("Tin: type")
        .stateful()
        .shape(no_outputs)
        .kernel(remove),
    Op::new("LookupTableExport", "table_handle: Ref(string) -> keys: Tkeys, values: Tvalues")
        .attrs("Tkeys: type; Tvalues: type")
        .shape(unknown)
        .kernel(export),
    Op::new("LookupTableExportV2", "table_handle: resource -> keys: Tkeys, values: Tvalues")
        .attrs("Tkeys: type; Tvalues: type")
        .stateful()
        .shape(unknown)
        .kernel(export),
    Op::new("LookupTableSize", "table_handle: Ref(string) -> size: int64")
        .not_differentiable()
        .shape(scalars)
        .kernel(size)
        .cost(Cost::Trivial),
    Op::new("LookupTableSizeV2", "table_handle: resource -> size: int64")
        .not_differentiable()
        .stateful()
        .shape(scalars)
        .kernel(size)
        .cost(Cost::Trivial),
];

const fn change(name: &'static str, signature: &'static str) -> Op {
    Op::new(name, signature).work(Work::Inputs).attrs("Tin: type; Tout: type").shape(no_outputs)
}

fn make(node: &NodeSpec<'_>, kind: Kind, has_shape: bool) -> Result<KernelBox> {
    let mut owner = Owner::<Table>::new(node)?;
    if node.attr("use_node_name_sharing")? {
        owner = owner.share_by_node_name();
    }
    let (key_dtype, value_dtype): (DType, DType) = (node.attr("key_dtype")?, node.attr("value_dtype")?);
    let value_shape = if has_shape {
        let shape: PartialShape = node.attr("value_shape")?;
        let unknown = || Status::invalid_argument(format!("Default value must be fully defined: {shape}"));
        shape.to_shape().ok_or_else(unknown)?
    } else {
        Shape::scalar()
    };
    Ok(KernelBox::from_fn(move |ctx| {
        let handle = owner.handle(
            ctx.step,
            |name| Table::new(name, kind, key_dtype, value_dtype, value_shape.clone()),
            |table| table.check_dtypes(key_dtype, value_dtype),
        )?;
        ctx.set_output(0, handle);
        Ok(())
    }))
}

/// `InitializeTable` takes vectors only.
fn initialize(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let table = ctx.resource::<Table>(0)?;
        let (keys, values) = (ctx.input(1)?, ctx.input(2)?);
        ensure!(
            keys.shape().rank() == 1,
            InvalidArgument,
            "Keys must be a vector, but received shape{}",
            keys.shape()
        );
        ensure!(
            keys.num_elements() == values.num_elements(),
            InvalidArgument,
            "Keys and values must have the same size {} vs {}",
            keys.num_elements(),
            values.num_elements()
        );
        table.import(keys, values)
    }))
}

fn changing(apply: fn(&Table, &Tensor, &Tensor) -> Result<()>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(move |ctx| apply(&*ctx.resource::<Table>(0)?, ctx.input(1)?, ctx.input(2)?)))
}

fn remove(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| ctx.resource::<Table>(0)?.remove(ctx.input(1)?)))
}

/// A scalar default means that values are scalars.
fn find_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let scalar_values = ctx.input(2).rank() == Some(0);
    Ok(vec![if scalar_values { ctx.input(1).clone() } else { PartialShape::unknown() }])
}

fn find(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let values = ctx.resource::<Table>(0)?.find(ctx.input(1)?, ctx.input(2)?)?;
        ctx.set_output(0, values);
        Ok(())
    }))
}

fn export(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let (key_dtype, value_dtype) = (node.output_dtype(0)?, node.output_dtype(1)?);
    Ok(KernelBox::from_fn(move |ctx| {
        let table = ctx.resource::<Table>(0)?;
        table.check_dtypes(key_dtype, value_dtype)?;
        let (keys, values) = table.export()?;
        ctx.set_output(0, keys);
        ctx.set_output(1, values);
        Ok(())
    }))
}

fn size(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let size = ctx.resource::<Table>(0)?.size() as i64;
        ctx.set_output(0, Tensor::scalar(size));
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use tensorfleet_core::Code;

    fn words(words: &[&'static str]) -> Tensor {
        Tensor::from_strings(words.iter().map(|&word| word.into()).collect(), &[words.len()]).unwrap()
    }

    fn integers(values: &[i64]) -> Tensor {
        Tensor::vector(values).unwrap()
    }

    fn table(kind: Kind) -> Table {
        Table::new("t", kind, DType::String, DType::Int64, Shape::scalar()).unwrap()
    }

    #[test]
    fn a_table_is_filled_once_and_wholly() {
        let t = table(Kind::Initializable);
        let default = Tensor::scalar(-1i64);
        let status = t.find(&words(&["a"]), &default).unwrap_err();
        assert_eq!((status.code(), status.text()), (Code::FailedPrecondition, "Table not initialized."));
        assert_eq!(t.import(&words(&["a", "b"]), &integers(&[1])).unwrap_err().code(), Code::InvalidArgument);
        let status = t.import(&words(&["a", "a"]), &integers(&[1, 2])).unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert_eq!(t.size(), 0);
        t.import(&words(&["a", "b"]), &integers(&[1, 2])).unwrap();
        t.import(&words(&["a", "b"]), &integers(&[1, 2])).unwrap();
        let found = t.find(&words(&["b", "x"]), &default).unwrap();
        assert_eq!(found.as_slice::<i64>().unwrap(), [2, -1]);
        let found = t.find(&words(&["x", "a"]), &integers(&[7, 8])).unwrap();
        assert_eq!(found.as_slice::<i64>().unwrap(), [7, 1]);
        assert!(t.find(&words(&["x", "a"]), &integers(&[7, 8, 9])).is_err());
        assert_eq!(t.insert(&words(&["q"]), &integers(&[1])).unwrap_err().code(), Code::Unimplemented);
        assert_eq!(t.find(&integers(&[1]), &default).unwrap_err().code(), Code::InvalidArgument);
    }

    #[test]
    fn rows_and_bools_are_values_too() {
        let row = Shape::new(&[2]).unwrap();
        let t = Table::new("t", Kind::Mutable, DType::Int64, DType::Bool, row).unwrap();
        let rows = Tensor::from_slice(&[true, false, false, true], &[2, 2]).unwrap();
        t.insert(&integers(&[5, 6]), &rows).unwrap();
        t.remove(&integers(&[5, 9])).unwrap();
        let found = t.find(&integers(&[6, 5]), &Tensor::vector(&[true, true]).unwrap()).unwrap();
        assert_eq!(found.as_slice::<bool>().unwrap(), [false, true, true, true]);
        let (keys, values) = t.export().unwrap();
        assert_eq!((keys.as_slice::<i64>().unwrap(), values.shape().dims()), (&[6][..], &[1, 2][..]));
    }

    #[derive(Clone, Debug)]
    enum Action {
        Insert(i64, i64),
        Remove(i64),
    }

    proptest! {
        #[test]
        fn a_mutable_table_agrees_with_a_map(actions in proptest::collection::vec(prop_oneof![
            (0i64..8, any::<i64>()).prop_map(|(key, value)| Action::Insert(key, value)),
            (0i64..8).prop_map(Action::Remove),
        ], 0..60)) {
            let t = Table::new("t", Kind::Mutable, DType::Int64, DType::Int64, Shape::scalar()).unwrap();
            let mut map = HashMap::new();
            for action in actions {
                match action {
                    Action::Insert(key, value) => {
                        t.insert(&integers(&[key]), &integers(&[value])).unwrap();
                        map.insert(key, value);
                    }
                    Action::Remove(key) => {
                        t.remove(&integers(&[key])).unwrap();
                        map.remove(&key);
                    }
                }
                prop_assert_eq!(t.size(), map.len());
            }
            let all: Vec<i64> = (0..8).collect();
            let found = t.find(&integers(&all), &Tensor::scalar(-3i64)).unwrap();
            let expected: Vec<i64> = all.iter().map(|key| map.get(key).copied().unwrap_or(-3)).collect();
            prop_assert_eq!(found.as_slice::<i64>().unwrap(), &expected[..]);
        }
    }

    #[test]
    fn ops_reach_the_table_through_either_handle() {
        use crate::testing::{test_op, test_step};
        let step = test_step();
        let make = |op: &str, value: DType| {
            let op = test_op(op).attr("key_dtype", DType::String).attr("value_dtype", value);
            op.attr("shared_name", "words").in_step(&step).run_one()
        };
        let (strings, resource) =
            (make("HashTable", DType::Int64).unwrap(), make("HashTableV2", DType::Int64).unwrap());
        let status = make("HashTableV2", DType::Float).unwrap_err();
        assert!(status.text().starts_with("Conflicting key/value dtypes string->float with string-int64"));
        let init = test_op("InitializeTable").attr("Tkey", DType::String).attr("Tval", DType::Int64);
        init.in_step(&step).input(strings).input(words(&["a"])).input(integers(&[4])).run().unwrap();
        let find = test_op("LookupTableFindV2").attr("Tin", DType::String).attr("Tout", DType::Int64);
        let find = find.in_step(&step).input(resource.clone()).input(words(&["a", "b"]));
        let found = find.input(Tensor::scalar(0i64)).run_one().unwrap();
        assert_eq!(found.as_slice::<i64>().unwrap(), [4, 0]);
        let size = test_op("LookupTableSizeV2").in_step(&step).input(resource);
        assert_eq!(size.run_one().unwrap().to_scalar::<i64>(), Ok(1));
    }
}
