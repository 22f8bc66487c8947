//! Load generator; not yet.
fn main() {}
