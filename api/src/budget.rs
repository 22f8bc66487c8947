//! Budgets that keys share: of requests in progress, of bytes of their bodies, of bytes of
//! responses that are not sent yet, and of event streams. A key may take a part of a budget only,
//! so that one key cannot exhaust it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use storage::model::tenant::KeyId;

/// An amount that requests share.
pub(crate) struct Budget {
    max: usize,
    /// Most that one key may take. A key that has taken nothing may take more.
    key_max: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    total: usize,
    /// Requests without a key share one part.
    keys: HashMap<Option<KeyId>, usize>,
    rejected: u64,
}

/// What is taken of a budget, and how often it had no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetUse {
    /// The amount that is taken now.
    pub taken: u64,
    /// Requests that were rejected since the start of the process.
    pub rejected: u64,
}

/// Why an amount was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// The key has its part already.
    Key,
    /// All keys together have the whole.
    Node,
}

impl Budget {
    pub(crate) fn new(max: usize, key_max: usize) -> Arc<Self> {
        Arc::new(Self { max, key_max, taken: Mutex::default() })
    }

    /// Takes an amount until the share is dropped.
    pub(crate) fn take(self: &Arc<Self>, key: Option<KeyId>, amount: usize) -> Result<Share, Full> {
        let mut taken = self.taken.lock();
        let of_key = taken.keys.get(&key).copied().unwrap_or(0);
        let is_over = of_key > 0 && of_key + amount > self.key_max;
        if is_over || taken.total + amount > self.max {
            taken.rejected += 1;
            return Err(if is_over { Full::Key } else { Full::Node });
        }
        taken.total += amount;
        taken.keys.insert(key, of_key + amount);
        drop(taken);
        Ok(Share { budget: Arc::clone(self), key, amount })
    }

    /// Takes an amount although the budget may be full: what is done cannot be rejected.
    pub(crate) fn take_always(self: &Arc<Self>, key: Option<KeyId>, amount: usize) -> Share {
        let mut taken = self.taken.lock();
        taken.total += amount;
        *taken.keys.entry(key).or_default() += amount;
        drop(taken);
        Share { budget: Arc::clone(self), key, amount }
    }

    pub(crate) fn usage(&self) -> BudgetUse {
        let taken = self.taken.lock();
        BudgetUse { taken: taken.total as u64, rejected: taken.rejected }
    }
}

/// A part of a budget, returned when it is dropped.
pub(crate) struct Share {
    budget: Arc<Budget>,
    key: Option<KeyId>,
    amount: usize,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.budget.taken.lock();
        taken.total -= self.amount;
        if let Some(of_key) = taken.keys.get_mut(&self.key) {
            *of_key -= self.amount;
            if *of_key == 0 {
                taken.keys.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Option<KeyId> = Some(KeyId([1; 8]));
    const TWO: Option<KeyId> = Some(KeyId([2; 8]));

    #[test]
    fn no_key_takes_more_than_its_part() {
        let budget = Budget::new(10, 4);
        let first = budget.take(ONE, 3).unwrap();
        assert_eq!(budget.take(ONE, 2).err(), Some(Full::Key));
        let second = budget.take(TWO, 6).expect("a key that has taken nothing may take more");
        assert_eq!(budget.take(None, 2).err(), Some(Full::Node));
        drop(first);
        assert!(budget.take(ONE, 4).is_ok());
        drop(second);
        let always = budget.take_always(ONE, 20);
        assert_eq!(budget.take(ONE, 1).err(), Some(Full::Key));
        drop(always);
        assert_eq!(budget.usage(), BudgetUse { taken: 0, rejected: 3 });
        assert!(budget.taken.lock().keys.is_empty(), "nothing is kept for ever");
    }
}
