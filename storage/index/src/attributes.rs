//! The filterable attributes of a memory, packed into 64 bits.
//!
//! A filter compiles to a mask and a value. A row matches if `attributes & mask == value`,
//! one comparison per row. A scan over a million rows reads 8 MB.
//!
//! Namespaces have numbers here, so that columns store a number instead of a name. A namespace has one
//! while it contains memories, which are in the order of their creation.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use model::access::{Access, is_below};
use model::guard::Trust;
use model::id::{MemoryId, Timestamp};
use model::memory::{DecayClass, Memory, MemoryType, Tier};
use roaring::{MultiOps, RoaringBitmap};

use crate::Slot;

/// Packed attributes: flags, decay class and type in a byte each, the number of the
/// namespace in the upper half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes(u64);

const LIVE: u64 = 1;
const PINNED: u64 = 2;
const FLAGGED: u64 = 4;
const ARCHIVED: u64 = 8;
const SUPERSEDED: u64 = 16;
const QUARANTINED: u64 = 32;
const REVIEWED: u64 = 64;
const CLASS_SHIFT: u32 = 8;
const TYPE_SHIFT: u32 = 16;
const NAMESPACE_SHIFT: u32 = 32;

impl Attributes {
    /// A row without a memory.
    pub const EMPTY: Self = Self(0);

    pub fn of(memory: &Memory, namespace: u32) -> Self {
        Self(
            u64::from(namespace) << NAMESPACE_SHIFT
                | (memory.memory_type as u64) << TYPE_SHIFT
                | (memory.decay_class as u64) << CLASS_SHIFT
                | LIVE
                | (u64::from(memory.is_pinned) * PINNED)
                | (u64::from(memory.is_flagged) * FLAGGED)
                | (u64::from(memory.archived_at.is_some()) * ARCHIVED)
                | (u64::from(memory.superseded_by.is_some()) * SUPERSEDED)
                | (u64::from(memory.guard.is_quarantined()) * QUARANTINED)
                | (u64::from(memory.guard.is_reviewed()) * REVIEWED),
        )
    }

    #[inline]
    pub fn is_pinned(self) -> bool {
        self.0 & PINNED != 0
    }

    #[inline]
    pub fn is_flagged(self) -> bool {
        self.0 & FLAGGED != 0
    }

    #[inline]
    pub fn is_quarantined(self) -> bool {
        self.0 & QUARANTINED != 0
    }

    /// As [`Memory::trust`].
    pub fn trust(self) -> Trust {
        match self.0 & (FLAGGED | REVIEWED) {
            0 => Trust::Normal,
            REVIEWED => Trust::Reviewed,
            _ => Trust::Suspect,
        }
    }

    #[inline]
    pub fn tier(self) -> Tier {
        if self.0 & ARCHIVED != 0 { Tier::Cold } else { Tier::Hot }
    }

    #[inline]
    pub fn is_superseded(self) -> bool {
        self.0 & SUPERSEDED != 0
    }

    /// Number of the namespace within the tenant's index.
    #[inline]
    pub fn namespace(self) -> u32 {
        (self.0 >> NAMESPACE_SHIFT) as u32
    }

    #[inline]
    pub fn memory_type(self) -> MemoryType {
        MemoryType::ALL[(self.0 >> TYPE_SHIFT) as u8 as usize]
    }

    #[inline]
    pub fn decay_class(self) -> DecayClass {
        DecayClass::ALL[(self.0 >> CLASS_SHIFT) as u8 as usize]
    }
}

/// Attributes that a row must have.
#[derive(Debug, Clone, Copy)]
pub struct AttributeMask {
    mask: u64,
    value: u64,
}

impl AttributeMask {
    /// Matches every row that contains a memory.
    pub const LIVE: Self = Self { mask: LIVE, value: LIVE };

    pub fn in_namespace(self, number: Option<u32>) -> Self {
        self.and(0xffff_ffff << NAMESPACE_SHIFT, number.map(u64::from), NAMESPACE_SHIFT)
    }

    pub fn of_type(self, memory_type: Option<MemoryType>) -> Self {
        self.and(0xff << TYPE_SHIFT, memory_type.map(|required| required as u64), TYPE_SHIFT)
    }

    pub fn with_flags(
        self,
        pinned: Option<bool>,
        flagged: Option<bool>,
        archived: Option<bool>,
        quarantined: Option<bool>,
    ) -> Self {
        let flag = |mask: Self, flag: u64, is_set: Option<bool>| {
            mask.and(flag, is_set.map(u64::from), flag.trailing_zeros())
        };
        let flags = [
            (PINNED, pinned),
            (FLAGGED, flagged),
            (ARCHIVED, archived),
            (QUARANTINED, quarantined),
        ];
        flags.into_iter().fold(self, |mask, (bit, is_set)| flag(mask, bit, is_set))
    }

    /// Requires `value`, shifted by `shift`, in the bits of `mask`. `None` requires nothing.
    fn and(self, mask: u64, value: Option<u64>, shift: u32) -> Self {
        let Some(value) = value else { return self };
        Self { mask: self.mask | mask, value: self.value | value << shift }
    }

    #[inline]
    pub fn matches(self, attributes: Attributes) -> bool {
        attributes.0 & self.mask == self.value
    }
}

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

    /// Slots of the memories in the namespaces that lie below one, and in it.
    pub fn below(&self, prefix: &str) -> RoaringBitmap {
        let below = self.numbers.iter().filter(|(name, _)| is_below(name, prefix));
        below.map(|(_, number)| &self.entries[*number as usize].slots).union()
    }

    /// The memories of a namespace that were created before and after one, nearest first.
    pub fn around(
        &self,
        number: u32,
        age: Age,
    ) -> (impl Iterator<Item = (&Age, &Slot)>, impl Iterator<Item = (&Age, &Slot)>) {
        use std::ops::Bound::{Excluded, Unbounded};
        let by_age = &self.entries[number as usize].by_age;
        (by_age.range(..age).rev(), by_age.range((Excluded(age), Unbounded)))
    }
}
