//! The slots of a tenant's memories by id.
//!
//! A hash map that grows moves all its entries at once, which takes 60 ms at 900,000, while searches of
//! the tenant wait. So a large one is split into parts that grow one by one.

use std::collections::HashMap;

use model::id::MemoryId;

use crate::Slot;

/// Entries at which the map is split.
const SPLIT: usize = 8_192;
/// Parts of a split map.
const PARTS: usize = 128;

/// Slots by id.
pub struct Slots {
    /// One, or [`PARTS`].
    parts: Vec<HashMap<MemoryId, Slot>>,
    len: usize,
}

impl Default for Slots {
    fn default() -> Self {
        Self { parts: vec![HashMap::new()], len: 0 }
    }
}

impl Slots {
    pub fn count(&self) -> usize {
        self.len
    }

    pub fn get(&self, id: MemoryId) -> Option<Slot> {
        self.parts[self.part(id)].get(&id).copied()
    }

    /// Sets the slot of a memory that has none.
    pub fn insert(&mut self, id: MemoryId, slot: Slot) {
        if self.parts.len() == 1 && self.len == SPLIT {
            let all = std::mem::take(&mut self.parts[0]);
            self.parts = (0..PARTS).map(|_| HashMap::new()).collect();
            for (id, slot) in all {
                let part = self.part(id);
                self.parts[part].insert(id, slot);
            }
        }
        let part = self.part(id);
        self.parts[part].insert(id, slot);
        self.len += 1;
    }

    pub fn remove(&mut self, id: MemoryId) -> Option<Slot> {
        let part = self.part(id);
        let part = &mut self.parts[part];
        let slot = part.remove(&id)?;
        self.len -= 1;
        if part.len() < part.capacity() / 8 {
            part.shrink_to_fit();
        }
        Some(slot)
    }

    /// All bytes of an id choose its part: ids of clients may differ in any of them.
    fn part(&self, id: MemoryId) -> usize {
        let folded =
            id.0.iter()
                .fold(0_u32, |folded, byte| (folded ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
        folded as usize % self.parts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_map_has_parts_of_similar_sizes() {
        let (mut slots, count) = (Slots::default(), 4 * SPLIT as u32);
        // They differ in few bits.
        let id = |number: u32| MemoryId(u128::from(number).to_be_bytes());
        for number in 0..count {
            slots.insert(id(number), number);
            assert_eq!(slots.get(id(number / 2)), Some(number / 2));
        }
        let largest = slots.parts.iter().map(HashMap::len).max().unwrap();
        assert!(largest < 4 * count as usize / PARTS, "{largest}");
        for number in 0..count {
            assert_eq!(slots.remove(id(number)), Some(number));
            assert_eq!(slots.remove(id(number)), None);
        }
        assert_eq!(slots.count(), 0);
    }
}
