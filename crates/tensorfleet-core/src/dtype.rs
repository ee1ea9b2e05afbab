//! Element types: [`DType`], the Rust types that store them ([`Element`]), and [`EdgeType`], a dtype that
//! may be a reference.

use std::fmt;

use half::{bf16, f16};
use num_complex::Complex;

use crate::status::{Result, Status};

macro_rules! dtypes {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal, $size:expr;)*) => {
        /// TensorFlow's element types with TensorFlow's numbers.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DType { $($(#[$doc])* $variant = $number,)* }

        impl DType {
            /// Every dtype, by number.
            pub const ALL: &'static [DType] = &[$(DType::$variant,)*];

            /// The dtype with this number in `tensorflow.DataType`; references are not dtypes.
            pub fn from_number(number: i32) -> Result<DType> {
                match number {
                    $($number => Ok(DType::$variant),)*
                    0 => Err(Status::invalid_argument("the dtype is not set (DT_INVALID)")),
                    other => Err(Status::invalid_argument(format!("unknown dtype number {other}"))),
                }
            }

            /// The name TensorFlow's error messages and op definitions use, e.g. `float`.
            pub fn name(self) -> &'static str {
                match self { $(DType::$variant => $name,)* }
            }

            /// Bytes per element, `None` for strings, resources and variants.
            pub fn size(self) -> Option<usize> {
                match self { $(DType::$variant => $size,)* }
            }
        }
    };
}

dtypes! {
    /// 32-bit float.
    Float = 1, "float", Some(4);
    /// 64-bit float.
    Double = 2, "double", Some(8);
    /// 32-bit signed integer.
    Int32 = 3, "int32", Some(4);
    /// 8-bit unsigned integer.
    UInt8 = 4, "uint8", Some(1);
    /// 16-bit signed integer.
    Int16 = 5, "int16", Some(2);
    /// 8-bit signed integer.
    Int8 = 6, "int8", Some(1);
    /// Byte string of any length.
    String = 7, "string", None;
    /// Two 32-bit floats.
    Complex64 = 8, "complex64", Some(8);
    /// 64-bit signed integer.
    Int64 = 9, "int64", Some(8);
    /// Boolean.
    Bool = 10, "bool", Some(1);
    /// Quantised 8-bit signed integer.
    QInt8 = 11, "qint8", Some(1);
    /// Quantised 8-bit unsigned integer.
    QUInt8 = 12, "quint8", Some(1);
    /// Quantised 32-bit signed integer.
    QInt32 = 13, "qint32", Some(4);
    /// Float with an 8-bit exponent and a 7-bit mantissa.
    BFloat16 = 14, "bfloat16", Some(2);
    /// Quantised 16-bit signed integer.
    QInt16 = 15, "qint16", Some(2);
    /// Quantised 16-bit unsigned integer.
    QUInt16 = 16, "quint16", Some(2);
    /// 16-bit unsigned integer.
    UInt16 = 17, "uint16", Some(2);
    /// Two 64-bit floats.
    Complex128 = 18, "complex128", Some(16);
    /// IEEE 16-bit float.
    Half = 19, "half", Some(2);
    /// Handle of a resource.
    Resource = 20, "resource", None;
    /// Opaque value.
    Variant = 21, "variant", None;
    /// 32-bit unsigned integer.
    UInt32 = 22, "uint32", Some(4);
    /// 64-bit unsigned integer.
    UInt64 = 23, "uint64", Some(8);
}

impl DType {
    /// The number in `tensorflow.DataType`.
    pub fn number(self) -> i32 {
        self as i32
    }

    /// The dtype called `name` in an op definition, e.g. `float` or `int64`.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.iter().copied().find(|dtype| dtype.name() == name)
    }

    /// The plain dtype whose Rust type stores this one: quantised types are stored as integers.
    pub fn storage(self) -> DType {
        match self {
            DType::QInt8 => DType::Int8,
            DType::QUInt8 => DType::UInt8,
            DType::QInt16 => DType::Int16,
            DType::QUInt16 => DType::UInt16,
            DType::QInt32 => DType::Int32,
            other => other,
        }
    }

    /// Whether elements are plain bytes that can be copied as such.
    pub fn is_plain(self) -> bool {
        self.size().is_some()
    }

    /// Half, bfloat16, float or double.
    pub fn is_floating(self) -> bool {
        matches!(self, DType::Half | DType::BFloat16 | DType::Float | DType::Double)
    }

    /// Complex64 or complex128.
    pub fn is_complex(self) -> bool {
        matches!(self, DType::Complex64 | DType::Complex128)
    }

    /// A signed or unsigned integer (bool and quantised types are not).
    pub fn is_integer(self) -> bool {
        use DType::*;
        matches!(self, Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Debug for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// TensorFlow adds 100 to the number of a dtype to say "reference to".
const REF_OFFSET: i32 = 100;

/// The type of an edge: a dtype, or a reference to a variable of that dtype.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EdgeType {
    /// The element type.
    pub dtype: DType,
    /// Whether the edge carries the variable itself instead of its value.
    pub is_ref: bool,
}

impl EdgeType {
    /// A plain value of this dtype.
    pub fn value(dtype: DType) -> EdgeType {
        EdgeType { dtype, is_ref: false }
    }

    /// A reference to a variable of this dtype.
    pub fn reference(dtype: DType) -> EdgeType {
        EdgeType { dtype, is_ref: true }
    }

    /// The number in `tensorflow.DataType`, references included.
    pub fn number(self) -> i32 {
        self.dtype.number() + if self.is_ref { REF_OFFSET } else { 0 }
    }

    /// The edge type with this number in `tensorflow.DataType`.
    pub fn from_number(number: i32) -> Result<EdgeType> {
        if number > REF_OFFSET {
            Ok(EdgeType::reference(DType::from_number(number - REF_OFFSET)?))
        } else {
            Ok(EdgeType::value(DType::from_number(number)?))
        }
    }
}

impl fmt::Display for EdgeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, if self.is_ref { "_ref" } else { "" })
    }
}

/// A Rust type that stores the elements of a plain dtype.
///
/// # Safety
/// `Self` must have exactly `DTYPE.size()` bytes, none of them padding, and every byte pattern that a tensor of that
/// dtype can hold must be a valid `Self`: any pattern at all, except for `bool`, of which tensors hold only 0 and 1.
pub unsafe trait Element: Copy + Send + Sync + PartialEq + fmt::Debug + Default + 'static {
    /// The dtype this type stores.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident;)*) => {
        // SAFETY: these are the numeric types whose width the table above states (tested below); they have no padding,
        // and all bit patterns of the numbers are valid. For `bool`, `Tensor::from_buffer` makes every byte of a buffer
        // that comes from outside 0 or 1, `Tensor::allocate` starts from zeros, and no tensor of bools can be written
        // as bytes or as words of another type.
        $(unsafe impl Element for $rust { const DTYPE: DType = DType::$dtype; })*
    };
}

elements! {
    f32 => Float;
    f64 => Double;
    i8 => Int8;
    i16 => Int16;
    i32 => Int32;
    i64 => Int64;
    u8 => UInt8;
    u16 => UInt16;
    u32 => UInt32;
    u64 => UInt64;
    bool => Bool;
    f16 => Half;
    bf16 => BFloat16;
    Complex<f32> => Complex64;
    Complex<f64> => Complex128;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_width<T: Element>() {
        assert_eq!(T::DTYPE.size(), Some(size_of::<T>()), "{}", T::DTYPE);
    }

    #[test]
    fn rust_types_are_as_wide_as_their_dtypes() {
        check_width::<f32>();
        check_width::<f64>();
        check_width::<i8>();
        check_width::<i16>();
        check_width::<i32>();
        check_width::<i64>();
        check_width::<u8>();
        check_width::<u16>();
        check_width::<u32>();
        check_width::<u64>();
        check_width::<bool>();
        check_width::<f16>();
        check_width::<bf16>();
        check_width::<Complex<f32>>();
        check_width::<Complex<f64>>();
    }

    #[test]
    fn numbers_and_names_lead_back_to_the_dtype() {
        for &dtype in DType::ALL {
            assert_eq!(DType::from_number(dtype.number()), Ok(dtype));
            assert_eq!(DType::from_name(dtype.name()), Some(dtype));
            let reference = EdgeType::reference(dtype);
            assert_eq!(EdgeType::from_number(reference.number()), Ok(reference));
        }
        assert!(DType::from_number(0).is_err());
        assert!(EdgeType::from_number(100).is_err());
        assert!(EdgeType::from_number(-1).is_err());
    }
}
