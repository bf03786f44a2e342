// SPDX-License-Identifier: Apache-2.0

//! The functions, structures and constants of Cohort's C API
//!
//! The headers (`cohort/*.h`) are the documentation; each item of this crate names its header. The
//! crate `cohort` is a safe interface.
//!
//! The build script looks for `libcohort.so` in `COHORT_LIB_DIR`, then by `pkg-config cohort`, then
//! in `build/lib` of the source tree. With the feature `vendored`, and if `COHORT_LIB_DIR` is not
//! set, it builds `libcohort.a` instead. `cargo run` and `cargo test` find the shared library. If
//! the program is started in another way, the library must be in the system's directories or in an
//! rpath. Build scripts of dependent crates find the directory in `DEP_COHORT_LIB_DIR`.

#![allow(non_camel_case_types)]

#[rustfmt::skip]
mod generated;

pub use generated::*;
