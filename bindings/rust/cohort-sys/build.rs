// SPDX-License-Identifier: Apache-2.0

//! Finds libcohort.so: in `COHORT_LIB_DIR`, else where pkg-config says, else in the
//! `build/lib` of the source tree that this crate is part of.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

const LIBRARY: &str = "libcohort.so";
const VERSIONS: &str = "cohort >= 0.2 cohort < 0.3";

fn main() {
    for name in ["COHORT_LIB_DIR", "PKG_CONFIG", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR"] {
        println!("cargo:rerun-if-env-changed={}", name);
    }
    let folder = search().unwrap_or_else(|reasons| {
        eprintln!("cohort-sys: {} was not found:", LIBRARY);
        for reason in reasons {
            eprintln!("  - {}", reason);
        }
        eprintln!("Set COHORT_LIB_DIR to its folder, or PKG_CONFIG_PATH to that of cohort.pc.");
        process::exit(1);
    });
    println!("cargo:rerun-if-changed={}", folder.join(LIBRARY).display());
    println!("cargo:rustc-link-search=native={}", folder.display());
    println!("cargo:rustc-link-lib=dylib=cohort");
    // For this crate's own tests. Build scripts of crates that depend on it find the folder
    // in DEP_COHORT_LIB_DIR.
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", folder.display());
    println!("cargo:lib_dir={}", folder.display());
}

/// The folder, or why it was found in none of the places.
fn search() -> Result<PathBuf, Vec<String>> {
    // A folder that was asked for is not replaced by another one.
    if let Some(folder) = env::var_os("COHORT_LIB_DIR") {
        return held(Path::new(&folder), "COHORT_LIB_DIR").map_err(|reason| vec![reason]);
    }
    let tree = Path::new(&env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default())
        .join("../../../build/lib");
    packaged().or_else(|first| {
        held(&tree, "the source tree").map_err(|second| vec![first, second + " (run make there)"])
    })
}

fn held(folder: &Path, whose: &str) -> Result<PathBuf, String> {
    if folder.join(LIBRARY).exists() {
        Ok(folder.canonicalize().unwrap_or_else(|_| folder.into()))
    } else {
        Err(format!("{}: {:?} does not have it", whose, folder))
    }
}

fn packaged() -> Result<PathBuf, String> {
    let program = env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into());
    let run = |arguments: &[&str]| {
        Command::new(&program)
            .args(arguments)
            .output()
            .map_err(|error| format!("{:?} cannot be run: {}", program, error))
    };
    let check = run(&["--print-errors", "--exists", VERSIONS])?;
    if !check.status.success() {
        let text = String::from_utf8_lossy(&check.stderr);
        return Err(format!("pkg-config: {}", text.lines().next().unwrap_or("not there")));
    }
    let folder = run(&["--variable=libdir", "cohort"])?.stdout;
    held(Path::new(String::from_utf8_lossy(&folder).trim()), "pkg-config")
}
