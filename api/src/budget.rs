//! Budgets: amounts that holders share, such as API keys or source networks. A holder may take a
//! part of a budget only, so that one holder cannot exhaust it. Here the holders are API keys:
//! they share requests in progress, bytes of their bodies, bytes of responses that are not sent
//! yet, and event streams.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use storage::model::id::KeyId;

/// An amount that holders share. By default they are API keys, and requests without one share one
/// part.
pub struct Budget<H: Copy + Eq + Hash = Option<KeyId>> {
    max: usize,
    /// Most that one holder may take. A holder that has taken nothing may take more.
    holder_max: usize,
    taken: Mutex<Taken<H>>,
}

struct Taken<H> {
    total: usize,
    holders: HashMap<H, usize>,
    rejected: u64,
}

/// What is taken of a budget, and how often it had no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetUse {
    /// The amount that is taken now.
    pub taken: u64,
    /// Takings that were rejected since the start of the process.
    pub rejected: u64,
}

/// Why an amount was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The holder has its part already.
    Holder,
    /// All holders together have the whole.
    Node,
}

impl<H: Copy + Eq + Hash> Budget<H> {
    /// A budget of `max`, of which one holder may take `holder_max`.
    pub fn new(max: usize, holder_max: usize) -> Arc<Self> {
        let taken = Taken { total: 0, holders: HashMap::new(), rejected: 0 };
        Arc::new(Self { max, holder_max, taken: Mutex::new(taken) })
    }

    /// Takes an amount until the share is dropped.
    ///
    /// # Errors
    /// When the holder or the node has no room for it.
    pub fn take(self: &Arc<Self>, holder: H, amount: usize) -> Result<Share<H>, Full> {
        let mut taken = self.taken.lock();
        let of_holder = taken.holders.get(&holder).copied().unwrap_or(0);
        let is_over = of_holder > 0 && of_holder + amount > self.holder_max;
        if is_over || taken.total + amount > self.max {
            taken.rejected += 1;
            return Err(if is_over { Full::Holder } else { Full::Node });
        }
        taken.total += amount;
        taken.holders.insert(holder, of_holder + amount);
        drop(taken);
        Ok(Share { budget: Arc::clone(self), holder, amount })
    }

    /// Takes an amount although the budget may be full: what is done cannot be rejected.
    pub(crate) fn take_always(self: &Arc<Self>, holder: H, amount: usize) -> Share<H> {
        let mut taken = self.taken.lock();
        taken.total += amount;
        *taken.holders.entry(holder).or_default() += amount;
        drop(taken);
        Share { budget: Arc::clone(self), holder, amount }
    }

    pub(crate) fn usage(&self) -> BudgetUse {
        let taken = self.taken.lock();
        BudgetUse { taken: taken.total as u64, rejected: taken.rejected }
    }
}

/// A part of a budget, returned when it is dropped.
pub struct Share<H: Copy + Eq + Hash = Option<KeyId>> {
    budget: Arc<Budget<H>>,
    holder: H,
    amount: usize,
}

impl<H: Copy + Eq + Hash> Share<H> {
    /// Its holder.
    pub fn holder(&self) -> H {
        self.holder
    }
}

impl<H: Copy + Eq + Hash> Drop for Share<H> {
    fn drop(&mut self) {
        let mut taken = self.budget.taken.lock();
        taken.total -= self.amount;
        if let Some(of_holder) = taken.holders.get_mut(&self.holder) {
            *of_holder -= self.amount;
            if *of_holder == 0 {
                taken.holders.remove(&self.holder);
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
    fn no_holder_takes_more_than_its_part() {
        let budget = Budget::new(10, 4);
        let first = budget.take(ONE, 3).unwrap();
        assert_eq!(budget.take(ONE, 2).err(), Some(Full::Holder));
        let second = budget.take(TWO, 6).expect("a holder that has taken nothing may take more");
        assert_eq!(budget.take(None, 2).err(), Some(Full::Node));
        drop(first);
        assert!(budget.take(ONE, 4).is_ok());
        drop(second);
        let always = budget.take_always(ONE, 20);
        assert_eq!(budget.take(ONE, 1).err(), Some(Full::Holder));
        drop(always);
        assert_eq!(budget.usage(), BudgetUse { taken: 0, rejected: 3 });
        assert!(budget.taken.lock().holders.is_empty(), "nothing is kept for ever");
    }
}
