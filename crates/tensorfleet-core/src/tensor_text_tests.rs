//! What numpy 2.4 prints for the same arrays.

use super::*;

fn check(tensor: crate::Result<Tensor>, expected: &str) {
    assert_eq!(tensor.unwrap().to_string(), expected);
}

#[test]
fn arrays_are_printed_as_numpy_prints_them() {
    for (tensor, expected) in [
        (Tensor::from_slice(&[1.0f32, 2.5, -3.0, 4.0], &[2, 2]), "[[ 1.   2.5]\n [-3.   4. ]]"),
        (Tensor::from_slice(&[1e-05f32, 1.0, 2.0], &[3]), "[1.e-05 1.e+00 2.e+00]"),
        (Tensor::from_slice(&[10000000000.0f64, 1.0], &[2]), "[1.e+10 1.e+00]"),
        (Tensor::from_slice(&[0.1f64, 0.25, 100.125], &[3]), "[1.00000e-01 2.50000e-01 1.00125e+02]"),
        (Tensor::from_slice(&[f32::NAN, 1.0, -f32::INFINITY], &[3]), "[ nan   1. -inf]"),
        (Tensor::from_slice(&[f32::NAN, f32::NAN], &[2]), "[nan nan]"),
        (Tensor::from_slice(&[1e-300f64, 2.5], &[2]), "[1.0e-300 2.5e+000]"),
        (Tensor::from_slice(&[0.1234567891234f64, 1.0], &[2]), "[0.12345679 1.        ]"),
        (Tensor::from_slice(&[1234567.0f32, 1000000.0], &[2]), "[1.234567e+06 1.000000e+06]"),
        (Tensor::from_slice(&[0.0f32, 0.0], &[2]), "[0. 0.]"),
        (Tensor::from_slice(&[1i32, -20, 300], &[3]), "[  1 -20 300]"),
        (Tensor::from_slice(&[true, false], &[2]), "[ True False]"),
        (
            Tensor::from_slice(&[0i64, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], &[2, 3, 2]),
            "[[[ 0  1]\n  [ 2  3]\n  [ 4  5]]\n\n [[ 6  7]\n  [ 8  9]\n  [10 11]]]",
        ),
        (Tensor::from_slice(&[-0.0f32, 1.5], &[2]), "[-0.   1.5]"),
        (Tensor::from_slice(&[1e-05f64, f64::NAN], &[2]), "[1.e-05    nan]"),
        (
            Tensor::from_slice(
                &[
                    0.0f32, 0.14285715, 0.2857143, 0.42857143, 0.5714286, 0.71428573, 0.85714287, 1.0,
                    1.1428572, 1.2857143, 1.4285715, 1.5714285, 1.7142857, 1.8571428, 2.0, 2.142857,
                    2.2857144, 2.4285715, 2.5714285, 2.7142856, 2.857143, 3.0, 3.142857, 3.2857144,
                    3.4285715, 3.5714285, 3.7142856, 3.857143, 4.0, 4.142857,
                ],
                &[30],
            ),
            "[0.         0.14285715 0.2857143  0.42857143 0.5714286  0.71428573\n 0.85714287 1.         1.1428572  1.2857143  1.4285715  1.5714285\n 1.7142857  1.8571428  2.         2.142857   2.2857144  2.4285715\n 2.5714285  2.7142856  2.857143   3.         3.142857   3.2857144\n 3.4285715  3.5714285  3.7142856  3.857143   4.         4.142857  ]",
        ),
        (
            Tensor::from_slice(
                &[
                    0i32, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10000, 11000, 12000, 13000,
                    14000, 15000, 16000, 17000, 18000, 19000, 20000, 21000, 22000, 23000, 24000, 25000,
                    26000, 27000, 28000, 29000, 30000, 31000, 32000, 33000, 34000, 35000, 36000, 37000,
                    38000, 39000,
                ],
                &[2, 20],
            ),
            "[[    0  1000  2000  3000  4000  5000  6000  7000  8000  9000 10000 11000\n  12000 13000 14000 15000 16000 17000 18000 19000]\n [20000 21000 22000 23000 24000 25000 26000 27000 28000 29000 30000 31000\n  32000 33000 34000 35000 36000 37000 38000 39000]]",
        ),
        (Tensor::from_slice(&[999999.9f32, 1000.5], &[2]), "[999999.9   1000.5]"),
    ] {
        check(tensor, expected);
    }
}

#[test]
fn sixteen_bits_and_complex_numbers_are_printed_as_numpy_prints_them() {
    let half = |numbers: &[f64]| {
        let numbers: Vec<f16> = numbers.iter().map(|&number| f16::from_f64(number)).collect();
        Tensor::vector(&numbers)
    };
    check(half(&[0.1, 1000.0, 65504.0]), "[1.00e-01 1.00e+03 6.55e+04]");
    check(half(&[0.1, 2.0]), "[0.1 2. ]");
    check(Tensor::vector(&[Complex::new(1.0f32, 2.0), Complex::new(3.5, -1.0)]), "[1. +2.j 3.5-1.j]");
    check(Ok(Tensor::scalar(Complex::new(1.0f64, -0.5))), "(1.0-0.5j)");
}

#[test]
fn large_tensors_show_their_edges() {
    let numbers: Vec<i32> = (0..2000).collect();
    check(Tensor::vector(&numbers), "[   0    1    2 ... 1997 1998 1999]");
    let numbers: Vec<f32> = (0..2000u16).map(f32::from).collect();
    let text = Tensor::from_slice(&numbers, &[40, 50]).unwrap().to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 7);
    assert_eq!(lines[0], "[[0.000e+00 1.000e+00 2.000e+00 ... 4.700e+01 4.800e+01 4.900e+01]");
    assert_eq!(lines[3], " ...");
    assert_eq!(lines[6], " [1.950e+03 1.951e+03 1.952e+03 ... 1.997e+03 1.998e+03 1.999e+03]]");
}

#[test]
fn many_axes_do_not_flood_the_screen() {
    let tensor = Tensor::from_slice(&vec![1u8; 279_936], &[6; 7]).unwrap();
    assert!(tensor.to_string().len() < 20_000);
    let tensor = Tensor::from_slice(&[1u8], &[1; 254]).unwrap();
    assert!(tensor.to_string().contains("[1]"));
}

#[test]
fn scalars_stand_alone() {
    for (scalar, expected) in [
        (Tensor::scalar(1.0f32), "1.0"),
        (Tensor::scalar(0.1f32), "0.1"),
        (Tensor::scalar(4.5667175e-14f32), "4.5667175e-14"),
        (Tensor::scalar(1e16f64), "1e+16"),
        (Tensor::scalar(123456789.125f64), "123456789.125"),
        (Tensor::scalar(f32::NAN), "nan"),
        (Tensor::scalar(f32::NEG_INFINITY), "-inf"),
        (Tensor::scalar(f16::from_f64(0.1)), "0.1"),
        (Tensor::scalar(0.0f64), "0.0"),
        (Tensor::scalar(-7i64), "-7"),
        (Tensor::scalar(true), "True"),
        (Tensor::string("Grüße"), "Grüße"),
    ] {
        check(Ok(scalar), expected);
    }
}

#[test]
fn the_format_may_ask_for_fewer_digits() {
    assert_eq!(format!("{:.2}", Tensor::scalar(0.96521f32)), "0.97");
    assert_eq!(format!("{:.1}", Tensor::vector(&[0.96521f32, 2.0]).unwrap()), "[1. 2.]");
    assert_eq!(format!("{:.3}", Tensor::vector(&[0.96521f32, 2.0]).unwrap()), "[0.965 2.   ]");
}

#[test]
fn strings_are_quoted_among_others_and_what_is_no_text_is_escaped() {
    let tensor = Tensor::from_strings(vec!["a".into(), "it's \"b\"\n".into(), vec![0xff, 65].into()], &[3]);
    check(tensor, "['a' 'it\\'s \"b\"\\n' '\\xffA']");
    let long = Tensor::from_strings(vec![vec![0xff; 1000].into()], &[1]).unwrap().to_string();
    assert!(long.ends_with("'...]") && long.len() < 1000, "{long}");
}

#[test]
fn what_is_empty_says_its_shape() {
    check(Tensor::from_slice::<f32>(&[], &[0]), "[]");
    check(Tensor::from_slice::<f32>(&[], &[0, 3]), "[] (shape [0,3])");
}

#[test]
fn debugging_shows_shape_and_dtype_as_well() {
    let vector = Tensor::vector(&[1.0f32, 2.0]).unwrap();
    assert_eq!(format!("{vector:?}"), "Tensor([1. 2.], shape=[2], dtype=float)");
    let matrix = Tensor::from_slice(&[1i32, 2], &[2, 1]).unwrap();
    assert_eq!(format!("{matrix:?}"), "Tensor(\n[[1]\n [2]], shape=[2,1], dtype=int32)");
}
