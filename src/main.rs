//! The `cadre` binary.

fn main() {}
