// SPDX-License-Identifier: Apache-2.0

//! The part of the crate half that the tests of the crate cohort use

#![allow(non_camel_case_types)]

macro_rules! bits {
    ($($name:ident)*) => {$(
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[repr(transparent)]
        pub struct $name(u16);

        impl $name {
            pub const fn from_bits(bits: u16) -> $name {
                $name(bits)
            }

            pub const fn to_bits(self) -> u16 {
                self.0
            }
        }
    )*};
}

bits! { f16 bf16 }
