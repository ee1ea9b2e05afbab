//! Matching and replacing with regular expressions.

use bytes::Bytes;
use regex::bytes::Regex;
use tensorfleet_core::{Result, Tensor, ensure, memory};

use super::each_string;
use super::re2;
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::same_as_input;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("StaticRegexFullMatch", "input: string -> output: bool")
        .attrs("pattern: string")
        .shape(same_as_input)
        .kernel(static_full_match),
    Op::new("RegexFullMatch", "input: string, pattern: string -> output: bool")
        .shape(same_as_input)
        .kernel(full_match),
    Op::new("StaticRegexReplace", "input: string -> output: string")
        .attrs("pattern: string; rewrite: string; replace_global: bool = true")
        .shape(same_as_input)
        .kernel(static_replace),
    Op::new("RegexReplace", "input: string, pattern: string, rewrite: string -> output: string")
        .not_differentiable()
        .attrs("replace_global: bool = true")
        .shape(same_as_input)
        .kernel(replace),
];

fn matched(cancellation: &Cancellation, input: &Tensor, regex: &Regex) -> Result<Tensor> {
    let texts = cancellation.unless_cancelled(input.as_strings()?);
    let matches: Vec<bool> = texts.map(|text| Ok(regex.is_match(text?))).collect::<Result<_>>()?;
    Tensor::from_slice(&matches, input.shape())
}

fn static_full_match(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let regex = re2::compile_full(&node.attr::<Bytes>("pattern")?)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let output = matched(&ctx.step.cancellation, ctx.input(0)?, &regex)?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

fn scalar<'a>(ctx: &'a Context<'_>, index: usize, what: &str) -> Result<&'a Bytes> {
    let input = ctx.input(index)?;
    ensure!(input.is_scalar(), InvalidArgument, "{what} must be scalar, but received {}", input.shape());
    input.to_string_scalar()
}

fn full_match(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let regex = re2::compile_full(scalar(ctx, 1, "Pattern")?)?;
        let output = matched(&ctx.step.cancellation, ctx.input(0)?, &regex)?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

fn static_replace(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let regex = re2::compile(&node.attr::<Bytes>("pattern")?)?;
    let rewrite = Rewrite::parse(&node.attr::<Bytes>("rewrite")?, &regex);
    let global: bool = node.attr("replace_global")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let output = replaced(ctx, &regex, rewrite.as_ref(), global)?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

fn replace(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let global: bool = node.attr("replace_global")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let regex = re2::compile(scalar(ctx, 1, "Pattern")?)?;
        let rewrite = Rewrite::parse(scalar(ctx, 2, "Rewrite")?, &regex);
        let output = replaced(ctx, &regex, rewrite.as_ref(), global)?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

/// What a match is replaced with: text and groups of the match.
struct Rewrite(Vec<Piece>);

enum Piece {
    Text(Vec<u8>),
    Group(usize),
}

impl Rewrite {
    /// `\0` to `\9` are groups, `\\` is a backslash. RE2 replaces nothing with a rewrite that is not valid.
    fn parse(text: &[u8], regex: &Regex) -> Option<Rewrite> {
        let mut pieces = Vec::new();
        let mut bytes = text.iter();
        while let Some(&byte) = bytes.next() {
            let literal = match byte {
                b'\\' => match *bytes.next()? {
                    b'\\' => b'\\',
                    digit @ b'0'..=b'9' => {
                        pieces.push(Piece::Group((digit - b'0') as usize));
                        continue;
                    }
                    _ => return None,
                },
                byte => byte,
            };
            match pieces.last_mut() {
                Some(Piece::Text(text)) => text.push(literal),
                _ => pieces.push(Piece::Text(vec![literal])),
            }
        }
        let known = |piece: &Piece| !matches!(piece, Piece::Group(group) if *group >= regex.captures_len());
        pieces.iter().all(known).then_some(Rewrite(pieces))
    }

    fn apply(&self, cancellation: &Cancellation, text: &[u8], regex: &Regex, global: bool) -> Result<Bytes> {
        let mut out = memory::vec_with_room(text.len())?;
        let mut end = 0;
        let limit = if global { usize::MAX } else { 1 };
        // To find one match may take a pass over all of the text, and there may be one at each of its bytes.
        for captures in cancellation.unless_cancelled(regex.captures_iter(text).take(limit)) {
            let captures = captures?;
            let Some(whole) = captures.get(0) else { continue };
            // Patterns match characters, so there is nothing to match in the middle of one.
            if whole.is_empty() && text.get(whole.start()).is_some_and(|&byte| byte & 0xc0 == 0x80) {
                continue;
            }
            memory::append(&mut out, &text[end..whole.start()])?;
            end = whole.end();
            for piece in &self.0 {
                match piece {
                    Piece::Text(text) => memory::append(&mut out, text)?,
                    Piece::Group(group) => {
                        let group = captures.get(*group).map_or(&[][..], |group| group.as_bytes());
                        memory::append(&mut out, group)?;
                    }
                }
            }
        }
        memory::append(&mut out, &text[end..])?;
        Ok(out.into())
    }
}

fn replaced(ctx: &Context<'_>, regex: &Regex, rewrite: Option<&Rewrite>, global: bool) -> Result<Tensor> {
    let (input, cancellation) = (ctx.input(0)?, &ctx.step.cancellation);
    match rewrite {
        None => Ok(input.clone()),
        Some(rewrite) => {
            each_string(cancellation, input, |text| rewrite.apply(cancellation, text, regex, global))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strings::tests::strings;
    use crate::testing::test_op;
    use tensorfleet_core::Code;

    fn replace_all(text: &str, pattern: &str, rewrite: &str) -> Tensor {
        let op = test_op("RegexReplace").input(strings(&[text]));
        op.input(Tensor::string(pattern.to_string()))
            .input(Tensor::string(rewrite.to_string()))
            .run_one()
            .unwrap()
    }

    #[test]
    fn matches_are_bools_of_the_same_shape() {
        let op = test_op("StaticRegexFullMatch").attr("pattern", "(dir|tmp)/.*");
        let output = op.input(strings(&["dir/x", "tmp", "a dir/x"])).run_one().unwrap();
        assert_eq!(output.as_slice::<bool>().unwrap(), [true, false, false]);
        let op = test_op("RegexFullMatch").input(strings(&["aa"])).input(Tensor::string("a+"));
        assert_eq!(op.run_one().unwrap().as_slice::<bool>().unwrap(), [true]);
        let op = test_op("StaticRegexFullMatch").attr("pattern", "(").input(strings(&[]));
        assert_eq!(op.run().unwrap_err().code(), Code::InvalidArgument);
    }

    #[test]
    fn replacements_use_groups_and_invalid_ones_change_nothing() {
        assert_eq!(replace_all("hello world", "(l+)", "<\\1>"), strings(&["he<ll>o wor<l>d"]));
        assert_eq!(replace_all("abc", "b*", "-"), strings(&["-a-c-"]));
        assert_eq!(replace_all("abc", "b", "\\0\\\\"), strings(&["ab\\c"]));
        assert_eq!(replace_all("abc", "b", "\\1"), strings(&["abc"]));
        let op = test_op("StaticRegexReplace").attr("pattern", "a").attr("rewrite", "");
        let op = op.attr("replace_global", false).input(strings(&["aaa"]));
        assert_eq!(op.run_one().unwrap(), strings(&["aa"]));
    }
}
