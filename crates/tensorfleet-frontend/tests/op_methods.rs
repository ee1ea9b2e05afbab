//! Methods of graphs and outputs that add one op or a few, each with what it comes to. The expected values are those of TensorFlow.

// A helper that fails is a failed test.
#![allow(clippy::unwrap_used)]

use tensorfleet::{DType, Graph, MatMulOptions, Output, Result, Session};

fn check(cases: impl FnOnce(&Graph) -> Result<Vec<(Output, &'static str)>>) {
    let g = Graph::new();
    let cases = cases(&g).unwrap();
    let session = Session::new(&g);
    for (output, expected) in cases {
        let value = session.run(&output).unwrap();
        assert_eq!(format!("{value:.4}"), expected, "{output:?}");
    }
}

#[test]
fn of_numbers() {
    check(|g| {
        let x = g.constant([-0.5f32, 0.5]);
        let far = g.constant([1.5f32, 2.5]);
        Ok(vec![
            (far.round()?, "[2. 2.]"),
            (far.rint()?, "[2. 2.]"),
            (x.expm1()?, "[-0.3935  0.6487]"),
            (x.sin()?, "[-0.4794  0.4794]"),
            (x.cos()?, "[0.8776 0.8776]"),
            (x.tan()?, "[-0.5463  0.5463]"),
            (x.asin()?, "[-0.5236  0.5236]"),
            (x.acos()?, "[2.0944 1.0472]"),
            (x.atan()?, "[-0.4636  0.4636]"),
            (x.sinh()?, "[-0.5211  0.5211]"),
            (x.cosh()?, "[1.1276 1.1276]"),
            (x.asinh()?, "[-0.4812  0.4812]"),
            (far.acosh()?, "[0.9624 1.5668]"),
            (x.atanh()?, "[-0.5493  0.5493]"),
            (x.erf()?, "[-0.5205  0.5205]"),
            (x.erfc()?, "[1.5205 0.4795]"),
            (far.lgamma()?, "[-0.1208  0.2847]"),
            (far.digamma()?, "[0.0365 0.7032]"),
            (g.constant([f32::INFINITY, 1.0]).is_inf()?, "[ True False]"),
            (g.constant([-7, 7]).truncate_div(2)?, "[-3  3]"),
            (g.constant([-7, 7]).truncate_mod(4)?, "[-3  3]"),
            (far.div_no_nan([0.0, 2.0])?, "[0.   1.25]"),
            (x.atan2([1.0, -1.0])?, "[-0.4636  2.6779]"),
            (g.constant([true, true]).logical_xor([true, false])?, "[False  True]"),
        ])
    });
}

#[test]
fn of_activations() {
    check(|g| {
        let x = g.constant([-1.0f32, 2.0, 8.0]);
        let scores = g.constant([[0.1f32, 0.7, 0.2], [0.5, 0.3, 0.2]]);
        let (one, two) = (g.constant(1.0f32), g.constant(2.0f32));
        Ok(vec![
            (x.relu6()?, "[0. 2. 6.]"),
            (x.elu()?, "[-0.6321  2.      8.    ]"),
            (x.selu()?, "[-1.1113  2.1014  8.4056]"),
            (x.softsign()?, "[-0.5     0.6667  0.8889]"),
            (x.leaky_relu(0.2)?, "[-0.2  2.   8. ]"),
            (g.constant([-1.0f32, 2.0]).log_sigmoid()?, "[-1.3133 -0.1269]"),
            (scores.top_k(1)?.0, "[[0.7]\n [0.5]]"),
            (scores.top_k(1)?.1, "[[1]\n [0]]"),
            (scores.in_top_k([1, 2], 2)?, "[ True False]"),
            (x.batch_normalization(&one, &two, &two, &one, 0.0)?, "[0.5858 2.7071 6.9497]"),
        ])
    });
}

#[test]
fn of_sums_and_statistics() {
    check(|g| {
        let x = g.constant([[1.0f32, 2.0], [3.0, 6.0]]);
        Ok(vec![
            (x.cumsum(0)?, "[[1. 2.]\n [4. 8.]]"),
            (x.cumprod(1)?, "[[ 1.  2.]\n [ 3. 18.]]"),
            (x.reduce_variance(0)?, "[1. 4.]"),
            (x.reduce_std(0)?, "[1. 2.]"),
            (x.reduce_logsumexp(1)?, "[2.3133 6.0486]"),
            (x.norm(1)?, "[2.2361 6.7082]"),
            (g.constant([[0, 2], [3, 0]]).count_nonzero(..)?, "2"),
            (x.unsorted_segment_max([0, 0], 1)?, "[[3. 6.]]"),
            (x.segment_sum([0, 0])?, "[[4. 8.]]"),
            (x.segment_mean([0, 0])?, "[[2. 4.]]"),
            (x.segment_max([0, 1])?, "[[1. 2.]\n [3. 6.]]"),
        ])
    });
}

#[test]
fn of_matrices() {
    check(|g| {
        let x = g.constant([[2.0f32, 1.0], [1.0, 2.0]]);
        let batch = g.constant([[[1.0f32, 2.0]], [[3.0, 4.0]]]);
        let turned = MatMulOptions { transpose_b: true, ..Default::default() };
        Ok(vec![
            (batch.matmul_with(&batch, turned)?, "[[[ 5.]]\n\n [[25.]]]"),
            (batch.matmul(g.constant([[[1.0f32], [1.0]], [[1.0], [0.0]]]))?, "[[[3.]]\n\n [[3.]]]"),
            (x.matmul_with([[1.0], [2.0]], MatMulOptions::default())?, "[[4.]\n [5.]]"),
            (x.matrix_diag_part()?, "[2. 2.]"),
            (g.constant([1, 2]).matrix_diag()?, "[[1 0]\n [0 2]]"),
            (x.matrix_band_part(0, -1)?, "[[2. 1.]\n [0. 2.]]"),
            (x.matrix_inverse()?, "[[ 0.6667 -0.3333]\n [-0.3333  0.6667]]"),
            (x.matrix_determinant()?, "3.0000"),
            (x.matrix_solve([[3.0], [3.0]])?, "[[1.]\n [1.]]"),
            (x.cholesky()?, "[[1.4142 0.    ]\n [0.7071 1.2247]]"),
        ])
    });
}

#[test]
fn of_places() {
    check(|g| {
        let x = g.constant([[1, 2, 3], [4, 5, 6]]);
        let parts = x.split_sizes(&[1, 2], 1)?;
        let columns = x.unstack_along(-1)?;
        let (values, numbers) = g.constant([7, 8, 7]).unique()?;
        Ok(vec![
            (g.constant([1, 2]).pad_with([[1, 0]], 9)?, "[9 1 2]"),
            (x.reverse([1])?, "[[3 2 1]\n [6 5 4]]"),
            (x.reverse_sequence([2, 3], 1)?, "[[2 1 3]\n [6 5 4]]"),
            (g.constant([1, 2]).broadcast_to([2, 2])?, "[[1 2]\n [1 2]]"),
            (x.ones_like()?, "[[1 1 1]\n [1 1 1]]"),
            (x.gather_nd([[0, 2], [1, 0]])?, "[3 4]"),
            (parts[1].clone(), "[[2 3]\n [5 6]]"),
            (columns[2].clone(), "[3 6]"),
            (g.stack_along((&columns[0], &columns[1]), 1)?, "[[1 2]\n [4 5]]"),
            (values, "[7 8]"),
            (numbers, "[0 1 0]"),
            (g.constant([1, 3]).sequence_mask(3)?, "[[ True False False]\n [ True  True  True]]"),
            (g.dynamic_stitch(([0, 2], [1]), ([10, 30], [20]))?, "[10 20 30]"),
            (g.scatter_nd([[1], [2]], [5, 6], [4])?, "[0 5 6 0]"),
            (g.constant([4, 4, 4]).random_shuffle()?, "[4 4 4]"),
        ])
    });
}

#[test]
fn of_text_and_checks() {
    check(|g| {
        let x = g.constant([1, 20]);
        let fine = g.constant([1.0f32]);
        Ok(vec![
            (x.as_string()?, "['1' '20']"),
            (x.as_string()?.string_length()?, "[1 2]"),
            (g.constant("tensor").substr(1, 2)?, "en"),
            (g.constant("a1b22").regex_replace("[0-9]+", "-")?, "a-b-"),
            (g.constant(["a"]).string_to_hash_bucket_fast(1)?, "[0]"),
            (g.constant("2").string_to_number(DType::Int32)?, "2"),
            (fine.check_numerics("fine")?, "[1.]"),
            (g.control_dependencies([g.assert(true, (&fine,))?], || fine.identity())?, "[1.]"),
        ])
    });
}
