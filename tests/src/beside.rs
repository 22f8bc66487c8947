//! Measures two systems in turns, and prints a table of their rates.

use std::time::Duration;

use crate::{Limit, Load, Request, print_target};

/// The source of the requests of one client.
pub type Requests = Box<dyn FnMut() -> Request + Send>;

/// What is compared.
pub struct Beside<'a> {
    /// Our requests and theirs, such as "creates", "puts".
    pub units: [&'a str; 2],
    /// The name of the other system.
    pub other: &'a str,
    /// How often each of both is measured. The table shows the median.
    pub turns: usize,
    /// Time of one turn.
    pub time: Duration,
}

impl Beside<'_> {
    /// Measures both with each number of clients. `client` returns the requests of a client of
    /// ours (0) or of theirs (1). Prints whether the ratio of both rates reaches each of `limits`.
    /// Returns the last rate of theirs.
    pub async fn run(
        &self,
        client: impl Fn(usize) -> Requests,
        limits: &[(usize, Option<f64>)],
    ) -> f64 {
        let Self { units: [unit, their_unit], other, .. } = self;
        println!(
            "| clients | Hearth {unit}/s | {other} {their_unit}/s | ratio | Hearth p50, p99 ms | {other} p50, p99 ms |"
        );
        println!("|---:|---:|---:|---:|---:|---:|");
        let mut rows = Vec::new();
        for (clients, limit) in limits {
            let [[ours, p50, p99], [theirs, their_p50, their_p99]] =
                self.medians(*clients, &client).await;
            println!(
                "| {clients} | {ours:.0} | {theirs:.0} | {:.2} | {p50:.2}, {p99:.2} | {their_p50:.2}, {their_p99:.2} |",
                ours / theirs
            );
            rows.push((clients, ours / theirs, limit, theirs));
        }
        for (clients, ratio, limit, _) in &rows {
            let Some(limit) = limit else { continue };
            let what = format!("{unit} against {other}'s {their_unit}, {clients} clients");
            print_target(&what, *ratio, Limit::AtLeast(*limit));
        }
        rows.last().map_or(0.0, |(_, _, _, theirs)| *theirs)
    }

    /// Rate, p50 and p99 of ours and theirs, each those of the turn with the median rate.
    async fn medians(&self, clients: usize, client: impl Fn(usize) -> Requests) -> [[f64; 3]; 2] {
        let mut turns = [Vec::new(), Vec::new()];
        for number in 0..self.turns {
            // In alternating order: the first turn includes flushes of the other system.
            for at in if number % 2 == 0 { [0, 1] } else { [1, 0] } {
                let load = Load::run(clients, self.time, |_| client(at)).await;
                turns[at].push([load.rate(), load.millis(50), load.millis(99)]);
            }
        }
        turns.map(|mut turns| {
            turns.sort_by(|left, right| left[0].total_cmp(&right[0]));
            turns[turns.len() / 2]
        })
    }
}
