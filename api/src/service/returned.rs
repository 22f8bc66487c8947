//! Results of searches that wait for triggers on recall. Each pair of a key that searches and a key
//! that owns triggers has a queue of its own; each report divides its room among the queues. So
//! neither many searches nor many triggers of one key delay the firings of others.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use storage::model::analytics::ReturnedMemory;
use storage::model::id::{KeyId, MemoryId};

/// Most firings that a queue waits for.
const QUEUE_FIRINGS_MAX: usize = 5_000;
/// Most results of a tenant in queues, and of one key that searches. Results beyond a limit are
/// dropped and counted.
const RESULTS_MAX: usize = 100_000;
const KEY_RESULTS_MAX: usize = RESULTS_MAX / 4;
/// Firings for which a report has room, over all tenants. A result is never divided.
pub(super) const REPORT_FIRINGS_MAX: usize = 125;

/// The owner of triggers; `None` owns those that no key created.
type Owner = Option<KeyId>;
/// The number of triggers of each owner that wait for a result.
pub(crate) type Waiting = BTreeMap<Owner, usize>;

/// Results of one tenant that are not reported to triggers yet.
#[derive(Default)]
pub(super) struct Returned {
    queues: BTreeMap<(KeyId, Owner), Queue>,
    /// Results in queues, and those of each key that searched.
    results: usize,
    of_keys: BTreeMap<KeyId, usize>,
}

#[derive(Default)]
struct Queue {
    /// Results with the number of triggers that wait for each, oldest first.
    results: VecDeque<(MemoryId, usize)>,
    firings: usize,
    /// When results were last reported: the turn of others comes first.
    reported: Option<Instant>,
}

impl Returned {
    /// Adds a result of a search by `key` for the triggers that wait for it. Returns the number of
    /// owners for whose triggers it had no room.
    pub(super) fn push(&mut self, key: KeyId, id: MemoryId, waiting: &Waiting) -> u64 {
        let mut dropped = 0;
        for (owner, triggers) in waiting {
            let queue = self.queues.entry((key, *owner)).or_default();
            let of_key = self.of_keys.entry(key).or_default();
            let is_full = queue.firings > 0 && queue.firings + triggers > QUEUE_FIRINGS_MAX;
            if is_full || self.results == RESULTS_MAX || *of_key == KEY_RESULTS_MAX {
                dropped += 1;
                continue;
            }
            queue.results.push_back((id, *triggers));
            queue.firings += triggers;
            (self.results, *of_key) = (self.results + 1, *of_key + 1);
        }
        dropped
    }

    /// Firings of all queues.
    pub(super) fn firings(&self) -> usize {
        self.queues.values().map(|queue| queue.firings).sum()
    }

    /// Whether no queue is left. One that was reported is left for one report more.
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Removes empty queues that an earlier report than that of `now` has emptied.
    pub(super) fn remove_idle(&mut self, now: Instant) {
        self.queues.retain(|_, queue| !queue.results.is_empty() || queue.reported == Some(now));
    }

    /// Takes results for a report with `room` for firings: first as much of each queue as its equal
    /// part of the room, then what the others leave. Returns them and the number of their firings,
    /// which is above the room if the last result needs more.
    pub(super) fn take(&mut self, now: Instant, room: usize) -> (Vec<ReturnedMemory>, usize) {
        // An empty queue was reported last time: if it was filled again, its turn comes later.
        self.queues.retain(|_, queue| !queue.results.is_empty());
        let mut queues: Vec<_> = self.queues.iter_mut().collect();
        queues.sort_by_key(|(_, queue)| queue.reported);
        let part = room / queues.len().max(1);
        let (mut times, mut firings) = (BTreeMap::new(), 0);
        for part in [part, usize::MAX] {
            for ((key, owner), queue) in &mut queues {
                let mut spent = 0_usize;
                // The first result is taken whatever it needs.
                while let Some((id, triggers)) = queue.results.front().copied()
                    && firings < room
                    && (spent == 0 || spent + triggers <= part)
                {
                    queue.results.pop_front();
                    queue.firings -= triggers;
                    self.results -= 1;
                    self.of_keys.entry(*key).and_modify(|results| *results -= 1);
                    queue.reported = Some(now);
                    spent += triggers;
                    firings += triggers;
                    *times.entry((*owner, id)).or_insert(0) += 1;
                }
            }
        }
        self.of_keys.retain(|_, results| *results > 0);
        let returned = times.into_iter();
        let returned = returned.map(|((owner, id), times)| ReturnedMemory { owner, id, times });
        (returned.collect(), firings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: KeyId = KeyId([6; 8]);
    const HONEST: KeyId = KeyId([7; 8]);

    fn id(number: usize) -> MemoryId {
        MemoryId((number as u128).to_be_bytes())
    }

    /// Adds results of a search by `key`; each waits for the number of triggers of each owner.
    fn search(
        queues: &mut Returned,
        key: KeyId,
        results: usize,
        waiting: &[(KeyId, usize)],
    ) -> u64 {
        let waiting = waiting.iter().map(|(owner, triggers)| (Some(*owner), *triggers)).collect();
        (0..results).map(|number| queues.push(key, id(number), &waiting)).sum()
    }

    /// Reported results for the triggers of `owner`.
    fn reported(queues: &mut Returned, owner: KeyId) -> u32 {
        let (returned, _) = queues.take(Instant::now(), REPORT_FIRINGS_MAX);
        let of_owner = returned.iter().filter(|it| it.owner == Some(owner));
        of_owner.map(|it| it.times).sum()
    }

    #[test]
    fn owners_and_searchers_divide_a_report() {
        let (mut queues, waiting) = (Returned::default(), [(HOSTILE, 20), (HONEST, 1)]);
        search(&mut queues, HOSTILE, 200, &waiting);
        search(&mut queues, HONEST, 20, &waiting);
        // Four queues: 31 firings of each, which are 31 results of one, and the 20 of the other.
        assert_eq!(reported(&mut queues, HONEST), 31 + 20);
    }

    #[test]
    fn a_lone_queue_has_all_room() {
        let mut queues = Returned::default();
        search(&mut queues, HONEST, 1_000, &[(HONEST, 2)]);
        assert_eq!(reported(&mut queues, HONEST), 63, "a result is not divided");
    }

    #[test]
    fn expensive_results_take_turns() {
        let mut queues = Returned::default();
        search(&mut queues, HOSTILE, 10, &[(HOSTILE, 300)]);
        search(&mut queues, HOSTILE, 10, &[(HONEST, 300)]);
        let turns = [(); 4].map(|()| reported(&mut queues, HONEST));
        assert_eq!(turns.iter().sum::<u32>(), 2, "every other report: {turns:?}");
    }

    #[test]
    fn refilled_queues_come_last() {
        let mut queues = Returned::default();
        search(&mut queues, HONEST, 3, &[(HONEST, 300)]);
        let mut of_honest = 0;
        for _ in 0..6 {
            search(&mut queues, HOSTILE, 1, &[(HOSTILE, 300)]);
            of_honest += reported(&mut queues, HONEST);
        }
        assert_eq!(of_honest, 3);
    }

    #[test]
    fn excess_results_are_dropped_and_counted() {
        let mut queues = Returned::default();
        assert_eq!(search(&mut queues, HOSTILE, 300, &[(HOSTILE, 20)]), 50);
        let owners: Vec<_> = (0..10).map(|owner| (KeyId([owner; 8]), 1)).collect();
        search(&mut queues, HOSTILE, 5_000, &owners);
        assert_eq!(queues.of_keys[&HOSTILE], KEY_RESULTS_MAX);
        assert_eq!(search(&mut queues, HONEST, 20, &[(HONEST, 1)]), 0);
        while !queues.queues.is_empty() {
            queues.take(Instant::now(), REPORT_FIRINGS_MAX);
        }
        assert_eq!((queues.results, queues.of_keys.len()), (0, 0));
    }
}
