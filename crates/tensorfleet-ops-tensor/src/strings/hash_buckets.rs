//! Strings to buckets by hash.

use bytes::Bytes;
use tensorfleet_core::{Result, Tensor, ensure, memory};

use super::hashes::{fingerprint64, hash64, sip_hash};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::same_as_input;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("StringToHashBucket", "string_tensor: string -> output: int64")
        .work(Work::Inputs)
        .not_differentiable()
        .attrs("num_buckets: int >= 1")
        .shape(same_as_input)
        .kernel(|node| bucket_kernel(node, hash64)),
    Op::new("StringToHashBucketFast", "input: string -> output: int64")
        .work(Work::Inputs)
        .not_differentiable()
        .attrs("num_buckets: int >= 1")
        .shape(same_as_input)
        .kernel(|node| bucket_kernel(node, fingerprint64)),
    Op::new("StringToHashBucketStrong", "input: string -> output: int64")
        .work(Work::Inputs)
        .not_differentiable()
        .attrs("num_buckets: int >= 1; key: list(int)")
        .shape(same_as_input)
        .kernel(strong),
];

fn bucket_kernel(
    node: &NodeSpec<'_>,
    hash: impl Fn(&[u8]) -> u64 + Send + Sync + 'static,
) -> Result<KernelBox> {
    let buckets = node.attr::<i64>("num_buckets")? as u64;
    Ok(KernelBox::from_fn(move |ctx| {
        let input = ctx.input(0)?;
        let bucket = |text: &Bytes| (hash(text) % buckets) as i64;
        let output: Vec<i64> = memory::collect(input.as_strings()?.iter().map(bucket))?;
        let output = Tensor::from_slice(&output, input.shape())?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

fn strong(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let key: Vec<i64> = node.attr("key")?;
    ensure!(key.len() == 2, InvalidArgument, "Key must have 2 elements");
    let key = [key[0] as u64, key[1] as u64];
    bucket_kernel(node, move |text| sip_hash(key, text))
}

#[cfg(test)]
mod tests {
    use crate::strings::tests::strings;
    use crate::testing::test_op;
    use tensorfleet_core::Code;

    #[test]
    fn buckets_lie_in_range_and_keys_have_two_parts() {
        let op = |name: &str| test_op(name).attr("num_buckets", 10i64).input(strings(&["a", "b", "c"]));
        for name in ["StringToHashBucket", "StringToHashBucketFast"] {
            let buckets = op(name).run_one().unwrap();
            assert!(buckets.as_slice::<i64>().unwrap().iter().all(|bucket| (0..10).contains(bucket)));
        }
        let strong = |key: Vec<i64>| op("StringToHashBucketStrong").attr("key", key);
        assert_eq!(strong(vec![1, 2]).run_one().unwrap().num_elements(), 3);
        assert_eq!(strong(vec![1]).run().unwrap_err().code(), Code::InvalidArgument);
    }
}
