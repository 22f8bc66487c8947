//! Compiles the crate again when the files of the dashboard change, which it contains.

fn main() {
    println!("cargo::rerun-if-changed=ui/dist");
}
