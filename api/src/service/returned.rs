//! Results of searches that wait for triggers on recall. Each pair of a key that searches and a key
//! that owns triggers has a queue of its own; each report divides its room among the queues. So
//! neither many searches nor many triggers of one key delay the firings of others.

use std::borrow::Borrow;
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use storage::OwnerCounts;
use storage::model::analytics::ReturnedMemory;
use storage::model::id::{KeyId, MemoryId};

/// Most firings that a queue waits for.
const QUEUE_FIRINGS_MAX: usize = 5_000;
/// Most results of a tenant in queues, and of one key that searches. A key with few may exceed the
/// limit of all. Results beyond a limit are dropped and counted.
const RESULTS_MAX: usize = 100_000;
const KEY_RESULTS_MAX: usize = RESULTS_MAX / 4;
const KEY_RESULTS_FEW: usize = 64;
/// Most pairs of a result and an owner that one search examines, except for its last result.
const SEARCH_EXAMINED_MAX: usize = 5_000;

/// When something last had its turn in a report, and its place there: those of which not all had a
/// turn follow each other, whatever their ids are. What is new joins at the end.
pub(super) type Turn = (Instant, usize);
/// The owner of triggers; `None` owns those that no key created.
type Owner = Option<KeyId>;

/// Results of one tenant that are not reported to triggers yet.
#[derive(Default)]
pub(super) struct Returned {
    queues: BTreeMap<(KeyId, Owner), Queue>,
    /// Results in queues, and those of each key that searched.
    results: usize,
    of_keys: BTreeMap<KeyId, usize>,
    /// Moves the owner that comes first.
    turn: usize,
}

struct Queue {
    /// Results with the number of triggers that wait for each, oldest first.
    results: VecDeque<(MemoryId, usize)>,
    firings: usize,
    /// When results were last reported, or when it was made: the turn of others comes first.
    turn: Turn,
}

impl Returned {
    /// Adds the results of a search by `key`, each with the triggers that wait for it. Returns the
    /// number of results that it did not add for all owners. It reads no further results once there
    /// is no room, or the search has had its part of the work.
    pub(super) fn push<W: Borrow<OwnerCounts>>(
        &mut self,
        key: KeyId,
        mut results: impl ExactSizeIterator<Item = (MemoryId, W)>,
    ) -> u64 {
        let (mut dropped, mut examined) = (0, 0);
        while examined < SEARCH_EXAMINED_MAX
            && self.has_room(key)
            && let Some((id, waiting)) = results.next()
        {
            let waiting = waiting.borrow();
            // Those that had no room come first next time.
            let first = self.turn % waiting.len().max(1);
            let in_turn = waiting.iter().cycle().skip(first).take(waiting.len());
            let added = in_turn.filter(|(owner, triggers)| self.add(key, **owner, id, **triggers));
            let added = added.count();
            self.turn = self.turn.wrapping_add(added);
            dropped += u64::from(added < waiting.len());
            examined += waiting.len();
        }
        dropped + results.len() as u64
    }

    fn has_room(&self, key: KeyId) -> bool {
        let of_key = self.of_keys.get(&key).copied().unwrap_or_default();
        let of_all = if self.results < RESULTS_MAX { KEY_RESULTS_MAX } else { KEY_RESULTS_FEW };
        of_key < of_all
    }

    /// Adds a result for the triggers of one owner, if there is room.
    fn add(&mut self, key: KeyId, owner: Owner, id: MemoryId, triggers: usize) -> bool {
        if !self.has_room(key) {
            return false;
        }
        let new = || Queue { results: VecDeque::new(), firings: 0, turn: (Instant::now(), 0) };
        let queue = self.queues.entry((key, owner)).or_insert_with(new);
        if queue.firings > 0 && queue.firings + triggers > QUEUE_FIRINGS_MAX {
            return false;
        }
        queue.results.push_back((id, triggers));
        queue.firings += triggers;
        self.results += 1;
        *self.of_keys.entry(key).or_default() += 1;
        true
    }

    /// Firings of all queues.
    pub(super) fn firings(&self) -> usize {
        self.queues.values().map(|queue| queue.firings).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Takes results for a report with `room` for firings: first as much of each queue as its equal
    /// part of the room, then what the others leave. Returns them and the number of their firings,
    /// which is above the room if the last result needs more.
    pub(super) fn take(&mut self, now: Instant, room: usize) -> (Vec<ReturnedMemory>, usize) {
        let mut queues: Vec<_> = self.queues.iter_mut().collect();
        queues.sort_by_key(|(_, queue)| queue.turn);
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
                    queue.turn = (now, firings);
                    spent += triggers;
                    firings += triggers;
                    *times.entry((*owner, id)).or_insert(0) += 1;
                }
            }
        }
        self.of_keys.retain(|_, results| *results > 0);
        self.queues.retain(|_, queue| !queue.results.is_empty());
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
    const ROOM: usize = 125;

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
        let waiting: OwnerCounts =
            waiting.iter().map(|(owner, triggers)| (Some(*owner), *triggers)).collect();
        queues.push(key, (0..results).map(|number| (id(number), &waiting)))
    }

    /// Reported results for the triggers of `owner`.
    fn reported(queues: &mut Returned, owner: KeyId) -> u32 {
        let (returned, _) = queues.take(Instant::now(), ROOM);
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

    /// Also those that were empty at the report before.
    #[test]
    fn refilled_queues_come_last() {
        let mut queues = Returned::default();
        search(&mut queues, HONEST, 3, &[(HONEST, 300)]);
        let mut of_honest = 0;
        for round in 0..6 {
            search(&mut queues, KeyId([round % 2; 8]), 1, &[(HOSTILE, 300)]);
            of_honest += reported(&mut queues, HONEST);
        }
        assert_eq!(of_honest, 3);
    }

    #[test]
    fn many_owners_are_served_alike() {
        let mut queues = Returned::default();
        let owners: Vec<_> = (0..200).map(|owner| (KeyId([owner; 8]), 1)).collect();
        assert_eq!(search(&mut queues, HOSTILE, 100, &owners), 75, "of the work");
        for _ in 0..40 {
            search(&mut queues, HOSTILE, 100, &owners);
            queues.take(Instant::now(), ROOM);
        }
        let waiting = queues.queues.values().map(|queue| queue.results.len());
        let (least, most) = waiting.fold((usize::MAX, 0), |(least, most), of_queue| {
            (least.min(of_queue), most.max(of_queue))
        });
        assert!(most - least <= 10, "{least} to {most} of {KEY_RESULTS_MAX}");
    }

    #[test]
    fn excess_results_are_dropped_and_counted() {
        let mut queues = Returned::default();
        assert_eq!(search(&mut queues, HOSTILE, 300, &[(HOSTILE, 20)]), 50);
        let owners: Vec<_> = (0..10).map(|owner| (KeyId([owner; 8]), 1)).collect();
        for _ in 0..10 {
            search(&mut queues, HOSTILE, 500, &owners);
        }
        assert_eq!(queues.of_keys[&HOSTILE], KEY_RESULTS_MAX);
        let read = (0..500).map(|_| -> (MemoryId, OwnerCounts) { panic!("it reads no result") });
        assert_eq!(queues.push(HOSTILE, read), 500);
        assert_eq!(search(&mut queues, HONEST, 20, &[(HONEST, 1)]), 0);
        while !queues.queues.is_empty() {
            queues.take(Instant::now(), ROOM);
        }
        assert_eq!((queues.results, queues.of_keys.len()), (0, 0));
    }

    #[test]
    fn full_queues_have_room_for_few_of_others() {
        let mut queues = Returned::default();
        let owners: Vec<_> = (0..10).map(|owner| (KeyId([owner; 8]), 1)).collect();
        for key in 0..4 {
            for _ in 0..10 {
                search(&mut queues, KeyId([key; 8]), 500, &owners);
            }
        }
        assert_eq!(queues.results, RESULTS_MAX);
        let dropped = search(&mut queues, HONEST, KEY_RESULTS_FEW + 1, &[(HONEST, 1)]);
        assert_eq!(dropped, 1);
    }
}
