//! Products, whoever computes them, against the definition.

use half::f16;
use num_complex::Complex;
use proptest::prelude::*;
use tensorfleet_core::Element;

use crate::gemm::*;

fn naive(a: &[f64], b: &[f64], m: usize, n: usize, k: usize, ta: bool, tb: bool) -> Vec<f64> {
    let left = |i: usize, j: usize| if ta { a[j * m + i] } else { a[i * k + j] };
    let right = |i: usize, j: usize| if tb { b[j * k + i] } else { b[i * n + j] };
    (0..m * n).map(|at| (0..k).map(|inner| left(at / n, inner) * right(inner, at % n)).sum()).collect()
}

fn view<T: Element>(data: &[T], rows: usize, cols: usize, transposed: bool) -> Matrix<'_, T> {
    if transposed {
        Matrix::new(data, cols, rows).unwrap().transposed()
    } else {
        Matrix::new(data, rows, cols).unwrap()
    }
}

proptest! {
    #[test]
    fn products_agree_with_the_definition_for_all_types_and_transposes(
        (m, n, k) in (0usize..20, 0usize..20, 0usize..20), ta: bool, tb: bool, accumulate: bool, seed in 0i64..1000,
    ) {
        let numbers = |len: usize, salt: i64| -> Vec<i64> {
            (0..len as i64).map(|i| (i * 7 + salt * 3 + seed) % 11 - 5).collect()
        };
        let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
        let (mode, start) = if accumulate { (Output::Accumulate, 1) } else { (Output::Overwrite, 0) };
        macro_rules! check {
            ($T:ty, $from:expr, $to:expr) => {{
                let (a, b): (Vec<$T>, Vec<$T>) = (a.iter().map($from).collect(), b.iter().map($from).collect());
                let mut out: Vec<$T> = vec![$from(&start); m * n];
                multiply(view(&a, m, k, ta), view(&b, k, n, tb), &mut out, mode, Threads::Many(tensorfleet_threads::Threads::of_process().loops())).unwrap();
                out.into_iter().map($to).collect::<Vec<f64>>()
            }};
        }
        let as_floats = |x: &[i64]| x.iter().map(|&x| x as f64).collect::<Vec<_>>();
        let mut expected = naive(&as_floats(&a), &as_floats(&b), m, n, k, ta, tb);
        expected.iter_mut().for_each(|x| *x += start as f64);
        prop_assert_eq!(check!(f32, |&x: &i64| x as f32, |x| x as f64), expected.clone());
        prop_assert_eq!(check!(f64, |&x: &i64| x as f64, |x| x), expected.clone());
        prop_assert_eq!(check!(f16, |&x: &i64| f16::from_f64(x as f64), |x: f16| x.to_f64()), expected.clone());
        prop_assert_eq!(check!(i32, |&x: &i64| x as i32, |x| x as f64), expected.clone());
        prop_assert_eq!(check!(Complex<f32>, |&x: &i64| Complex::from(x as f32), |x: Complex<f32>| x.re as f64), expected);
    }
}

#[test]
fn products_of_all_sizes_and_transposes_agree_whoever_computes_them() {
    // Around the sizes at which one way of computing gives place to another; the last two are the library's.
    for (m, n, k) in [
        (33, 70, 41),
        (3, 500, 300),
        (500, 3, 300),
        (1, 900, 90),
        (29, 480, 160),
        (130, 400, 500),
        (400, 410, 390),
    ] {
        let numbers = |count: usize, salt: usize| -> Vec<f32> {
            (0..count).map(|i| ((i * 7 + salt) % 11) as f32 - 5.0).collect()
        };
        let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
        let wide = |x: &[f32]| x.iter().map(|&x| x as f64).collect::<Vec<_>>();
        for (ta, tb, mode) in [(false, false), (false, true), (true, false), (true, true)]
            .into_iter()
            .flat_map(|(ta, tb)| [(ta, tb, Output::Overwrite), (ta, tb, Output::Accumulate)])
        {
            let mut out = vec![1.0f32; m * n];
            multiply(
                view(&a, m, k, ta),
                view(&b, k, n, tb),
                &mut out,
                mode,
                Threads::Many(tensorfleet_threads::Threads::of_process().loops()),
            )
            .unwrap();
            let start = if mode == Output::Accumulate { 1.0 } else { 0.0 };
            let expected = naive(&wide(&a), &wide(&b), m, n, k, ta, tb);
            let same = expected.iter().zip(&out).all(|(&expected, &found)| expected + start == found as f64);
            assert!(same, "{m} {n} {k} {ta} {tb}");
        }
    }
}

#[test]
fn conjugates_are_taken_in_small_and_in_large_products() {
    for size in [1, 16] {
        let a = vec![Complex::new(1.0f32, 2.0); size * size];
        let b = vec![Complex::new(1.0f32, 1.0); size * size];
        let mut out = vec![Complex::default(); size * size];
        let (left, right) = (Matrix::new(&a, size, size).unwrap(), Matrix::new(&b, size, size).unwrap());
        multiply(left.adjoint_if(true), right, &mut out, Output::Overwrite, Threads::One).unwrap();
        let scale = size as f32;
        assert!(out.iter().all(|&x| x == Complex::new(3.0 * scale, -scale)), "{out:?}");
    }
}
