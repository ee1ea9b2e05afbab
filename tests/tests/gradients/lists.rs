//! Gradients through lists of tensors, element by element and as a whole.

use tensorfleet::{DType, Graph, Output, Result};
use tensorfleet_tests::gradient_check::{GradientCase, spread};

/// The shape about which nothing is known.
fn any_shape(g: &Graph) -> Output {
    g.constant(-1i32)
}

fn list_op(g: &Graph, op: &str) -> tensorfleet::OpBuilder {
    g.op(op).attr("element_dtype", DType::Double)
}

fn empty(g: &Graph) -> Result<Output> {
    list_op(g, "EmptyTensorList").input(any_shape(g)).input(-1).output()
}

fn push(g: &Graph, list: &Output, tensor: &Output) -> Result<Output> {
    g.op("TensorListPushBack").input(list).input(tensor).output()
}

/// A list of the rows of `x`.
fn rows(g: &Graph, x: &Output) -> Result<Output> {
    g.op("TensorListFromTensor").input(x).input(any_shape(g)).output()
}

fn get(g: &Graph, list: &Output, index: i32) -> Result<Output> {
    list_op(g, "TensorListGetItem").input(list).input(index).input(any_shape(g)).output()
}

fn stack(g: &Graph, list: &Output) -> Result<Output> {
    list_op(g, "TensorListStack").input(list).input(any_shape(g)).output()
}

fn joined(g: &Graph, op: &str, list: &Output) -> Result<Output> {
    let node = list_op(g, op).input(list);
    let node = match op {
        "TensorListConcatV2" => node.input(any_shape(g)).input(g.constant(Vec::<i64>::new())),
        _ => node,
    };
    Ok(node.build()?.output(0))
}

pub(crate) fn cases() -> Vec<GradientCase> {
    let two = || [spread(&[3, 2], -1.0, 1.0), spread(&[2], 0.2, 1.4)];
    let squared_row = |g: &Graph, list: &Output, index: i32| -> Result<Output> {
        let item = get(g, list, index)?;
        Ok(&item * &item)
    };
    let mut cases = vec![
        GradientCase::new("TensorListPushBack", two(), |g, x| {
            let list = push(g, &push(g, &empty(g)?, &x[1])?, &(&x[1] * &x[1]))?;
            Ok(vec![stack(g, &list)?])
        }),
        GradientCase::new("TensorListPopBack", two(), |g, x| {
            let pop = list_op(g, "TensorListPopBack").input(&rows(g, &x[0])?).input(any_shape(g)).build()?;
            let rest = push(g, &pop.output(0), &(pop.output(1) * &x[1]))?;
            Ok(vec![stack(g, &rest)?, pop.output(1) * pop.output(1)])
        }),
        // Nothing comes back for what the list still holds.
        GradientCase::new("TensorListPopBack", two(), |g, x| {
            let pop = list_op(g, "TensorListPopBack").input(&rows(g, &x[0])?).input(any_shape(g)).build()?;
            Ok(vec![pop.output(1) * &x[1]])
        }),
        GradientCase::new("TensorListGetItem", two(), move |g, x| {
            let list = rows(g, &x[0])?;
            Ok(vec![squared_row(g, &list, 1)?, squared_row(g, &list, 2)? * &x[1]])
        }),
        GradientCase::new("TensorListSetItem", two(), |g, x| {
            let set = g.op("TensorListSetItem").input(&rows(g, &x[0])?).input(1).input(&x[1]).output()?;
            Ok(vec![stack(g, &set)?, get(g, &set, 1)? * &x[1]])
        }),
        GradientCase::new("TensorListSetItem", two(), |g, x| {
            let node = g.op("TensorListSetItem").attr("resize_if_index_out_of_bounds", true);
            let set = node.input(&rows(g, &x[0])?).input(4).input(&x[1]).output()?;
            Ok(vec![stack(g, &set)?])
        }),
        GradientCase::new("TensorListResize", two(), |g, x| {
            let longer = g.op("TensorListResize").input(&rows(g, &x[0])?).input(4).output()?;
            let shorter = g.op("TensorListResize").input(&rows(g, &x[0])?).input(2).output()?;
            Ok(vec![stack(g, &longer)?, stack(g, &shorter)?])
        }),
        GradientCase::new("TensorListFromTensor", two(), |g, x| {
            let list = rows(g, &(&x[0] * &x[1]))?;
            Ok(vec![get(g, &list, 0)?, stack(g, &list)?])
        }),
        GradientCase::new("TensorListStack", two(), |g, x| {
            let list = g.op("TensorListReserve").attr("element_dtype", DType::Double);
            let list = list.input(g.constant(vec![2i32])).input(3).output()?;
            let list = g.op("TensorListSetItem").input(&list).input(1).input(&x[1]).output()?;
            let stacked = stack(g, &list)?;
            Ok(vec![&stacked * &x[0]])
        }),
        GradientCase::new("TensorListGather", two(), |g, x| {
            let gather = list_op(g, "TensorListGather").input(&rows(g, &x[0])?);
            Ok(vec![gather.input(g.constant(vec![2i32, 0])).input(any_shape(g)).output()? * &x[1]])
        }),
        GradientCase::new("TensorListScatterIntoExistingList", two(), |g, x| {
            let into = g.op("TensorListScatterIntoExistingList").input(&rows(g, &x[0])?);
            let pair = g.op("Pack").inputs([&x[1], &(&x[1] * 2.0)]).output()?;
            let list = into.input(&pair).input(g.constant(vec![1i32, 4])).output()?;
            Ok(vec![stack(g, &list)?])
        }),
        GradientCase::new("TensorListSplit", two(), |g, x| {
            let split = g.op("TensorListSplit").input(&x[0]).input(any_shape(g));
            let list = split.input(g.constant(vec![1i64, 2])).output()?;
            let (first, second) = (get(g, &list, 0)?, get(g, &list, 1)?);
            Ok(vec![&first * &first, &second * &x[1]])
        }),
    ];
    for op in ["TensorListScatter", "TensorListScatterV2"] {
        cases.push(GradientCase::new(op, two(), move |g, x| {
            let node =
                g.op(op).input(&(&x[0] * &x[1])).input(g.constant(vec![3i32, 0, 1])).input(any_shape(g));
            let node = if op == "TensorListScatterV2" { node.input(5) } else { node };
            Ok(vec![stack(g, &node.output()?)?])
        }));
    }
    for op in ["TensorListConcat", "TensorListConcatV2"] {
        cases.push(GradientCase::new(op, two(), move |g, x| {
            let list = push(g, &push(g, &empty(g)?, &x[1])?, &(x[0].reduce_sum([0])? * &x[1]))?;
            Ok(vec![joined(g, op, &list)?])
        }));
    }
    // A list that goes through a loop, as loops of version 2 keep what they need.
    cases.push(GradientCase::new("TensorListPushBack", two(), |g, x| {
        let start = [g.constant(0), empty(g)?, x[1].clone()];
        let body = |[i, list, a]: [Output; 3]| Ok([i + 1, push(g, &list, &a)?, &a * &x[1]]);
        let [_, list, last] = g.while_loop(start, |[i, _, _]| i.less(3), body)?;
        Ok(vec![stack(g, &list)?, last])
    }));
    cases
}
