// SPDX-License-Identifier: Apache-2.0

//! The functions, structures and constants of Cohort as C has them
//!
//! The headers (`cohort/*.h`) are the documentation: each item here names its own. The crate
//! `cohort` has a safe interface.
//!
//! The build script looks for `libcohort.so` in `COHORT_LIB_DIR`, else where `pkg-config
//! cohort` says, else in `build/lib` of the source tree. A program finds the library at run
//! time as any other: in the system's folders, or by an rpath. Build scripts of crates that
//! depend on this one find the folder in `DEP_COHORT_LIB_DIR`.

#![allow(non_camel_case_types)]

#[rustfmt::skip]
mod generated;

pub use generated::*;
