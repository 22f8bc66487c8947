//! Benches; not yet.
fn main() {}
