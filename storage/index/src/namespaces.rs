//! Numbers for the namespaces of one tenant, so that columns store a number instead of a
//! name, and the memories of each namespace in the order of their creation. A namespace has a
//! number while it contains memories.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use model::access::Access;
use model::id::{MemoryId, Timestamp};
use roaring::{MultiOps, RoaringBitmap};

use crate::Slot;

/// Place of a memory in the order of creation.
pub type Age = (Timestamp, MemoryId);

/// Namespaces and their numbers.
#[derive(Default)]
pub struct Namespaces {
    numbers: HashMap<Box<str>, u32>,
    /// By number. Numbers without memories are free.
    entries: Vec<Namespace>,
    free: Vec<u32>,
}

#[derive(Default)]
struct Namespace {
    name: Box<str>,
    by_age: BTreeMap<Age, Slot>,
    slots: RoaringBitmap,
}

impl Namespaces {
    /// Adds a memory to a namespace, unless it is in it, and returns the namespace's number.
    pub fn add_memory(&mut self, name: &str, age: Age, slot: Slot) -> u32 {
        let number = match self.numbers.get(name) {
            Some(number) => *number,
            None => self.add(name),
        };
        let namespace = &mut self.entries[number as usize];
        namespace.by_age.insert(age, slot);
        namespace.slots.insert(slot);
        number
    }

    fn add(&mut self, name: &str) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Namespace::default());
            self.entries.len() as u32 - 1
        });
        self.entries[number as usize].name = name.into();
        self.numbers.insert(name.into(), number);
        number
    }

    /// Removes a memory from a namespace. The number becomes free with the last memory.
    pub fn remove_memory(&mut self, number: u32, age: Age, slot: Slot) {
        let namespace = &mut self.entries[number as usize];
        namespace.by_age.remove(&age);
        namespace.slots.remove(slot);
        if namespace.by_age.is_empty() {
            self.numbers.remove(&namespace.name);
            *namespace = Namespace::default();
            self.free.push(number);
        }
    }

    /// Number of a namespace that contains memories.
    pub fn number(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// Name of a namespace that contains memories.
    pub fn name(&self, number: u32) -> Option<&str> {
        let entry = self.entries.get(number as usize);
        entry.filter(|entry| !entry.by_age.is_empty()).map(|entry| &*entry.name)
    }

    /// Numbers of the namespaces that `access` denies, sorted.
    pub fn denied(&self, access: &Access) -> Vec<u32> {
        if access.is_unrestricted() {
            return Vec::new();
        }
        let denied = self.numbers.iter().filter(|(name, _)| !access.allows(name));
        let mut denied: Vec<u32> = denied.map(|(_, number)| *number).collect();
        denied.sort_unstable();
        denied
    }

    /// Slots of the memories that `access` allows in `namespace`, or in all namespaces. `None` is
    /// all slots.
    pub fn visible(
        &self,
        namespace: Option<&str>,
        access: &Access,
    ) -> Option<Cow<'_, RoaringBitmap>> {
        let slots = |number: u32| &self.entries[number as usize].slots;
        match namespace {
            Some(name) => {
                let number = self.number(name).filter(|_| access.allows(name));
                Some(number.map_or_else(Cow::default, |number| Cow::Borrowed(slots(number))))
            }
            None if access.is_unrestricted() => None,
            None => {
                let allowed = self.numbers.iter().filter(|(name, _)| access.allows(name));
                Some(Cow::Owned(allowed.map(|(_, number)| slots(*number)).union()))
            }
        }
    }

    /// The memories of a namespace that were created before and after one, nearest first.
    pub fn around(
        &self,
        number: u32,
        age: Age,
    ) -> [Box<dyn Iterator<Item = (&Age, &Slot)> + '_>; 2] {
        use std::ops::Bound::{Excluded, Unbounded};
        let by_age = &self.entries[number as usize].by_age;
        let later = by_age.range((Excluded(age), Unbounded));
        [Box::new(by_age.range(..age).rev()), Box::new(later)]
    }
}
