//! Where the FoundationDB client library is, for those who want its driver.
//!
//! The linker's own message names a file and no package, so this one says what to install. It never fails the
//! build: type-checking needs no library. And `foundationdb-sys` does not notice when FDB_CLIENT_LIB_PATH
//! changes after it was built, so the folder is handed to the linker here.

use std::{env, path::Path};

/// Where packages put it; the linker knows more places, so this is a hint and no verdict.
const USUAL: [&str; 6] = [
    "/usr/lib",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/local/lib",
    "/lib64",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=FDB_CLIENT_LIB_PATH");
    if env::var_os("CARGO_FEATURE_FDB").is_none() {
        return;
    }
    let configured = env::var("FDB_CLIENT_LIB_PATH").ok();
    if let Some(folder) = &configured {
        println!("cargo::rustc-link-search=native={folder}");
    }
    let mut folders = configured.iter().map(String::as_str).chain(USUAL);
    let is_there = |folder: &str| {
        ["libfdb_c.so", "libfdb_c.dylib"].iter().any(|library| Path::new(folder).join(library).exists())
    };
    if !folders.any(is_there) {
        println!(
            "cargo::warning=libfdb_c was not found: `cargo check` works, linking will not. Install the package \
             foundationdb-clients (7.3 or newer) from https://github.com/apple/foundationdb/releases, or set \
             FDB_CLIENT_LIB_PATH to the folder that has the library."
        );
    }
}
