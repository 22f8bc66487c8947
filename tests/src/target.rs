//! Targets of measurements: each prints its value, its limit, and whether it is met.

/// A limit that a measured value reaches.
#[derive(Clone, Copy)]
pub enum Limit {
    /// The value must not be lower.
    AtLeast(f64),
    /// The value must not be higher.
    AtMost(f64),
}

/// Prints a target of docs/performance.md as a line.
pub fn print_target(what: &str, value: f64, limit: Limit) {
    let (is_met, text) = match limit {
        Limit::AtLeast(limit) => (value >= limit, format!("at least {limit}")),
        Limit::AtMost(limit) => (value <= limit, format!("at most {limit}")),
    };
    let result = if is_met { "met" } else { "MISSED" };
    println!("target: {what}: {value:.2}, {text}: {result}");
}
