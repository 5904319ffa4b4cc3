//! `cadre-loadtest`: load generator and promise checker.

fn main() {}
