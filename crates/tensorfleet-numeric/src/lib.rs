//! The arithmetic under the kernels: slices in, slices out.
//!
//! Nothing here knows ops, nodes or steps. [`number`] and [`stored`] say how each dtype computes; [`broadcast`] and
//! [`elementwise`] run any element-wise loop over any shapes; [`gemm`] multiplies matrices, with [`implicit_gemm`] and
//! [`sparse_lhs_gemm`] for left operands that are gathered or sparse; [`rearrange`] and [`strided`] move elements of any dtype.
//! [`dispatch!`] leads from a dtype to a type, [`simd_dispatch!`] from a loop to the instructions of the processor at hand.

pub mod assign;
pub mod broadcast;
pub mod dispatch;
pub mod elementwise;
pub mod gemm;
pub mod implicit_gemm;
mod library_gemm;
mod matrix;
pub mod number;
pub mod philox;
pub mod rearrange;
pub mod simd;
pub mod sparse_lhs_gemm;
pub mod special;
pub mod stored;
pub mod strided;
pub mod transpose;
pub mod vector;
pub mod vector_math;

#[cfg(test)]
mod gemm_tests;
