// SPDX-License-Identifier: Apache-2.0

use std::os::raw::c_int;

use cohort_sys as sys;

/// Element types
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum DType {
    /// `i8`
    I8 = sys::COHORT_I8,
    /// `u8`
    U8 = sys::COHORT_U8,
    /// `i32`
    I32 = sys::COHORT_I32,
    /// `u32`
    U32 = sys::COHORT_U32,
    /// `i64`
    I64 = sys::COHORT_I64,
    /// `u64`
    U64 = sys::COHORT_U64,
    /// [`F16`]
    F16 = sys::COHORT_F16,
    /// `f32`
    F32 = sys::COHORT_F32,
    /// `f64`
    F64 = sys::COHORT_F64,
    /// [`Bf16`]
    Bf16 = sys::COHORT_BF16,
    /// [`F8E4M3`]
    F8E4M3 = sys::COHORT_F8E4M3,
    /// [`F8E5M2`]
    F8E5M2 = sys::COHORT_F8E5M2,
}

impl DType {
    pub(crate) fn code(self) -> c_int {
        self as c_int
    }

    /// The bytes of one element.
    pub fn size(self) -> usize {
        // SAFETY: the function takes any value.
        unsafe { sys::cohort_type_size(self.code()) }
    }

    /// The spelling of the type: "float32".
    pub fn name(self) -> &'static str {
        // SAFETY: the function takes any value, and returns a string that is never freed.
        unsafe { crate::error::static_text(sys::cohort_type_name(self.code())) }
    }
}

/// Types whose values collectives work on
///
/// # Safety
///
/// A value is plain bytes, of which any are a value, without padding; its size is
/// `DTYPE.size()`, its alignment no more than that, and the bytes mean what `DTYPE` says.
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// The type that the library is told.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($type:ty = $dtype:ident;)*) => {
        // SAFETY: each is a number, or a newtype of one, of that size.
        $(unsafe impl Element for $type { const DTYPE: DType = DType::$dtype; })*
    };
}

elements! {
    i8 = I8; u8 = U8; i32 = I32; u32 = U32; i64 = I64; u64 = U64; f32 = F32; f64 = F64;
    F16 = F16; Bf16 = Bf16; F8E4M3 = F8E4M3; F8E5M2 = F8E5M2;
}

macro_rules! bits {
    ($($name:ident: $bits:ty, $text:literal;)*) => {$(
        #[doc = $text]
        ///
        /// Only its bits: this crate does no arithmetic. For a type of your own with these
        /// bits, implement [`Element`].
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct $name(pub $bits);
    )*};
}

bits! {
    F16: u16, "A float of 16 bits (IEEE 754 binary16).";
    Bf16: u16, "A bfloat16: the upper half of an `f32`.";
    F8E4M3: u8, "An 8-bit float of OCP with 4 bits of exponent.";
    F8E5M2: u8, "An 8-bit float of OCP with 5 bits of exponent.";
}

/// Reductions; the arithmetic is described in `cohort/types.h`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum Op {
    /// The sum; integers wrap.
    Sum = sys::COHORT_SUM,
    /// The product; integers wrap.
    Prod = sys::COHORT_PROD,
    /// The largest value.
    Max = sys::COHORT_MAX,
    /// The smallest value.
    Min = sys::COHORT_MIN,
    /// The sum divided by the number of ranks.
    Avg = sys::COHORT_AVG,
}

/// What may be the reduction of elements of type `T`: an [`Op`], or a `&`[`PremulSum<T>`]
///
/// [`PremulSum<T>`]: crate::PremulSum
pub trait Reduction<T: Element>: sealed::Reduction {}

pub(crate) mod sealed {
    use std::os::raw::c_int;

    pub trait Reduction {
        fn code(&self) -> c_int;
    }
}

impl sealed::Reduction for Op {
    fn code(&self) -> c_int {
        *self as c_int
    }
}

impl<T: Element> Reduction<T> for Op {}
