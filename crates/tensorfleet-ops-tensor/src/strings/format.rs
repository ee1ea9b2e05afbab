//! `StringFormat`: tensors printed into a template.

use bytes::Bytes;
use tensorfleet_core::{Result, Tensor, ensure, memory};

use super::tensor_text::edges;
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::scalars;

/// The family's table.
pub(crate) static OPS: &[Op] = &[Op::new("StringFormat", "inputs: T -> output: string")
    .attrs("T: list(type) >= 0; template: string = '%s'; placeholder: string = '%s'; summarize: int = 3")
    .shape(scalars)
    .kernel(format)];

fn format(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let template: Bytes = node.attr("template")?;
    let placeholder: Bytes = node.attr("placeholder")?;
    let summarize: i64 = node.attr("summarize")?;
    ensure!(!placeholder.is_empty(), InvalidArgument, "the placeholder of a template must not be empty");
    let pieces = pieces_between(&template, &placeholder);
    let count = node.inputs.len();
    ensure!(
        pieces.len() - 1 == count,
        InvalidArgument,
        "num placeholders in template and num inputs must match: {} vs. {count}",
        pieces.len() - 1
    );
    Ok(KernelBox::from_fn(move |ctx| {
        let mut text = pieces[0].to_vec();
        for (index, piece) in pieces[1..].iter().enumerate() {
            memory::append(&mut text, edges(ctx.input(index)?, summarize)?.as_bytes())?;
            memory::append(&mut text, piece)?;
        }
        ctx.set_output(0, Tensor::string(text));
        Ok(())
    }))
}

/// The text before, between and after the placeholders.
fn pieces_between(template: &Bytes, placeholder: &[u8]) -> Vec<Bytes> {
    let (mut pieces, mut start, mut at) = (Vec::new(), 0, 0);
    while at + placeholder.len() <= template.len() {
        if &template[at..at + placeholder.len()] == placeholder {
            pieces.push(template.slice(start..at));
            at += placeholder.len();
            start = at;
        } else {
            at += 1;
        }
    }
    pieces.push(template.slice(start..));
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strings::tests::strings;
    use crate::testing::test_op;
    use tensorfleet_core::{Code, DType};

    #[test]
    fn placeholders_are_replaced_in_order() {
        let op = |template: &str| {
            let op = test_op("StringFormat").attr("T", vec![DType::Int32, DType::String]);
            let op = op.attr("template", template).attr("placeholder", "{}");
            op.input(Tensor::vector(&[1i32, 2]).unwrap()).input(strings(&["a"]))
        };
        assert_eq!(op("x {} y {}!").run_one().unwrap(), Tensor::string("x [1 2] y [\"a\"]!"));
        assert_eq!(op("{}").run().unwrap_err().code(), Code::InvalidArgument);
        let none = test_op("StringFormat").attr("T", Vec::<DType>::new()).attr("template", "plain");
        assert_eq!(none.run_one().unwrap(), Tensor::string("plain"));
    }
}
