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
    /// A byte of 0 or 1, which is moved but not reduced
    Bool = sys::COHORT_BOOL,
    /// `i16`, which is moved but not reduced
    I16 = sys::COHORT_I16,
    /// `u16`, which is moved but not reduced
    U16 = sys::COHORT_U16,
    /// Two `f32`, which are moved but not reduced
    C64 = sys::COHORT_C64,
    /// Two `f64`, which are moved but not reduced
    C128 = sys::COHORT_C128,
}

impl DType {
    pub(crate) fn code(self) -> c_int {
        self as c_int
    }

    /// Return the size of one element in bytes.
    pub fn size(self) -> usize {
        // SAFETY: the function takes any value.
        unsafe { sys::cohort_type_size(self.code()) }
    }

    /// Return the name of the type, for example "float32".
    pub fn name(self) -> &'static str {
        // SAFETY: the function takes any value, and returns a string that is never freed.
        unsafe { crate::error::static_text(sys::cohort_type_name(self.code())) }
    }
}

/// A type whose values collectives can work on
///
/// # Safety
///
/// A value is plain bytes without padding, and any bytes are a valid value. Its size is
/// `DTYPE.size()`, its alignment is at most that, and the bytes are encoded as `DTYPE` says.
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// The element type that C functions get.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($type:ty = $dtype:ident;)*) => {
        // SAFETY: each is a number of that size, or a newtype of one.
        $(unsafe impl Element for $type { const DTYPE: DType = DType::$dtype; })*
    };
}

elements! {
    i8 = I8; u8 = U8; i16 = I16; u16 = U16; i32 = I32; u32 = U32; i64 = I64; u64 = U64;
    f32 = F32; f64 = F64; F16 = F16; Bf16 = Bf16; F8E4M3 = F8E4M3; F8E5M2 = F8E5M2;
}

#[cfg(feature = "half")]
elements! {
    half::f16 = F16; half::bf16 = Bf16;
}

macro_rules! bits {
    ($($name:ident: $bits:ty, $text:literal;)*) => {$(
        #[doc = $text]
        ///
        /// The type only holds bits; this crate does no arithmetic on them. To use your own type
        /// with the same bits, implement [`Element`] for it. The feature `half` does so for
        /// `half::f16` and `half::bf16`.
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

/// A reduction; `cohort/types.h` describes its arithmetic
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum Op {
    /// Sum; integers wrap.
    Sum = sys::COHORT_SUM,
    /// Product; integers wrap.
    Prod = sys::COHORT_PROD,
    /// Largest value.
    Max = sys::COHORT_MAX,
    /// Smallest value.
    Min = sys::COHORT_MIN,
    /// Sum divided by the number of ranks.
    Avg = sys::COHORT_AVG,
}

/// A reduction of elements of type `T`: an [`Op`], or a `&`[`PremulSum<T>`]
///
/// [`PremulSum<T>`]: crate::PremulSum
pub trait Reduction<T>: sealed::Reduction {}

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

impl<T> Reduction<T> for Op {}
