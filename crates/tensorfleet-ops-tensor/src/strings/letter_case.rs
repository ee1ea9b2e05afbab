//! Letter case and white space: `StringLower`, `StringUpper`, `StringStrip`.

use tensorfleet_core::{Result, bail, excerpt, memory};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::same_as_input;

use super::each_kernel;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("StringStrip", "input: string -> output: string")
        .work(Work::Inputs)
        .shape(same_as_input)
        .kernel(strip),
    Op::new("StringLower", "input: string -> output: string")
        .work(Work::Inputs)
        .attrs("encoding: string = ''")
        .shape(same_as_input)
        .kernel(|node| case_kernel(node, <[u8]>::to_ascii_lowercase, str::to_lowercase)),
    Op::new("StringUpper", "input: string -> output: string")
        .work(Work::Inputs)
        .attrs("encoding: string = ''")
        .shape(same_as_input)
        .kernel(|node| case_kernel(node, <[u8]>::to_ascii_uppercase, str::to_uppercase)),
];

fn strip(_: &NodeSpec<'_>) -> Result<KernelBox> {
    each_kernel(|text| {
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
        let start = text.iter().position(|byte| !is_space(byte)).unwrap_or(text.len());
        let end = text.iter().rposition(|byte| !is_space(byte)).map_or(start, |last| last + 1);
        Ok(text.slice(start..end))
    })
}

fn case_kernel(
    node: &NodeSpec<'_>,
    ascii: fn(&[u8]) -> Vec<u8>,
    unicode: fn(&str) -> String,
) -> Result<KernelBox> {
    match node.attr::<String>("encoding")?.as_str() {
        "" => each_kernel(move |text| {
            memory::check_fits(text.len())?;
            Ok(ascii(text).into())
        }),
        // A character may become up to three, and bytes that are none become the one that says so.
        "utf-8" => each_kernel(move |text| {
            memory::check_fits(text.len().saturating_mul(6))?;
            Ok(unicode(&String::from_utf8_lossy(text)).into())
        }),
        other => {
            bail!(InvalidArgument, "only utf-8 or '' (no encoding) is supported, received {}", excerpt(other))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::strings::tests::strings;
    use crate::testing::test_op;
    use tensorfleet_core::Code;

    #[test]
    fn cases_and_spaces() {
        let change = |op: &str, encoding: &str, text: &str| {
            test_op(op).attr("encoding", encoding).input(strings(&[text])).run_one()
        };
        assert_eq!(change("StringLower", "", "ABÉ").unwrap(), strings(&["abÉ"]));
        assert_eq!(change("StringLower", "utf-8", "ABÉ").unwrap(), strings(&["abé"]));
        assert_eq!(change("StringUpper", "utf-8", "abéß").unwrap(), strings(&["ABÉSS"]));
        assert_eq!(change("StringUpper", "latin", "a").unwrap_err().code(), Code::InvalidArgument);
        let strip = |text: &str| test_op("StringStrip").input(strings(&[text])).run_one().unwrap();
        assert_eq!(strip(" \t\n\x0b\x0c\rab c \r\n"), strings(&["ab c"]));
        assert_eq!(strip("  "), strings(&[""]));
    }
}
