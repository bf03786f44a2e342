// SPDX-License-Identifier: Apache-2.0

//! Lets this crate's tests and examples find the library where cohort-sys has found it.

fn main() {
    println!("cargo:rerun-if-env-changed=DEP_COHORT_LIB_DIR");
    if let Ok(folder) = std::env::var("DEP_COHORT_LIB_DIR") {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{}", folder);
    }
}
