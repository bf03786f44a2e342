// SPDX-License-Identifier: Apache-2.0

//! Find libcohort.so: in `COHORT_LIB_DIR`, then by pkg-config, then in `build/lib` of the source
//! tree that contains this crate. With the feature `vendored`, and if `COHORT_LIB_DIR` is not set,
//! build libcohort.a from source instead.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

const LIBRARY: &str = "libcohort.so";
const LOADED: &str = "libcohort.so.0";
const VERSIONS: &str = "cohort >= 0.2 cohort < 0.3";

fn main() {
    for name in ["COHORT_LIB_DIR", "PKG_CONFIG", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR"] {
        println!("cargo:rerun-if-env-changed={}", name);
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    if cfg!(feature = "vendored") && env::var_os("COHORT_LIB_DIR").is_none() {
        build(&out).unwrap_or_else(|reason| fail(&["the feature vendored:", reason.as_str()]));
        return;
    }
    let folder = search().unwrap_or_else(|reasons| {
        let mut lines = vec![format!("{} was not found:", LIBRARY)];
        lines.extend(reasons.iter().map(|reason| format!("  - {}", reason)));
        lines.push(
            "Set COHORT_LIB_DIR to its directory, or PKG_CONFIG_PATH to that of cohort.pc, or use \
             the feature vendored."
                .into(),
        );
        fail(&lines)
    });
    println!("cargo:rerun-if-changed={}", folder.join(LIBRARY).display());
    println!("cargo:rustc-link-search=native={}", folder.display());
    println!("cargo:rustc-link-lib=dylib=cohort");
    // Put a link into cargo's target directory, where `cargo run` and `cargo test` make the loader
    // search.
    let link = out.join(LOADED);
    drop(fs::remove_file(&link));
    symlink(folder.join(LOADED), &link)
        .unwrap_or_else(|error| fail(&[format!("{:?} cannot be made: {}", link, error)]));
    println!("cargo:rustc-link-search=native={}", out.display());
    // Build scripts of crates that depend on this one find the directory in DEP_COHORT_LIB_DIR.
    println!("cargo:lib_dir={}", folder.display());
}

fn fail<T: AsRef<str>>(lines: &[T]) -> ! {
    for (i, line) in lines.iter().enumerate() {
        eprintln!("{}{}", if i == 0 { "cohort-sys: " } else { "" }, line.as_ref());
    }
    process::exit(1);
}

/// Build the archive with the Makefile, from the sources in this crate or, if there are none, in
/// the tree that contains it.
fn build(out: &Path) -> Result<(), String> {
    let crate_folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let packaged = crate_folder.join("source");
    let root = if packaged.exists() { packaged } else { crate_folder.join("../../..") };
    for name in ["Makefile", "mk", "include", "src"] {
        println!("cargo:rerun-if-changed={}", root.join(name).display());
    }
    let archive = out.join("lib/libcohort.a");
    let mut make = Command::new("make");
    make.current_dir(&root).arg(&archive);
    make.arg(format!("out={}", out.display())).arg(format!("dir={}/objects", out.display()));
    make.arg(format!("-j{}", env::var("NUM_JOBS").unwrap_or_default()));
    // If make runs cargo, do not pass that make's variables to this make.
    for name in ["MAKEFLAGS", "MFLAGS", "MAKELEVEL", "VARIANT"] {
        make.env_remove(name);
    }
    if env::var_os("DEBUG").map_or(false, |debug| debug == "false") {
        let flags = env::var("CFLAGS").unwrap_or_default();
        make.env("CFLAGS", flags + " -g0");
    }
    let done = make.output().map_err(|error| format!("make cannot be run: {}", error))?;
    if !done.status.success() {
        return Err(format!("make failed:\n{}", String::from_utf8_lossy(&done.stderr)));
    }
    println!("cargo:rustc-link-search=native={}", out.join("lib").display());
    println!("cargo:rustc-link-lib=static=cohort");
    for name in ["pthread", "dl", "m"] {
        println!("cargo:rustc-link-lib={}", name);
    }
    Ok(())
}

/// Return the directory of the library, or the reason for each place where it is missing.
fn search() -> Result<PathBuf, Vec<String>> {
    // If the user has chosen a directory, do not search other directories.
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
        Err(format!("{}: {:?} does not contain it", whose, folder))
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
