//! Numbers for the namespaces of one tenant, so that columns store a number instead of a
//! name. A namespace has a number while it contains memories.

use std::collections::HashMap;

use crate::model::access::Access;

/// Namespaces and their numbers, with reference counts.
#[derive(Default)]
pub(crate) struct Namespaces {
    numbers: HashMap<Box<str>, u32>,
    /// By number: name and count of memories. Numbers with count 0 are free.
    entries: Vec<(Box<str>, u32)>,
    free: Vec<u32>,
}

impl Namespaces {
    /// Adds a memory to a namespace and returns the namespace's number.
    pub(crate) fn add_memory(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            self.entries[*number as usize].1 += 1;
            return *number;
        }
        let number = self.free.pop().map_or(self.entries.len(), |number| number as usize);
        let entry = (Box::from(name), 1);
        match self.entries.get_mut(number) {
            Some(free) => *free = entry,
            None => self.entries.push(entry),
        }
        self.numbers.insert(name.into(), number as u32);
        number as u32
    }

    /// Removes a memory from a namespace. The number becomes free with the last memory.
    pub(crate) fn remove_memory(&mut self, number: u32) {
        let (name, memories) = &mut self.entries[number as usize];
        *memories -= 1;
        if *memories == 0 {
            self.numbers.remove(name);
            *name = Box::default();
            self.free.push(number);
        }
    }

    /// Number of a namespace that contains memories.
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// Name of a namespace that contains memories.
    pub(crate) fn name(&self, number: u32) -> Option<&str> {
        let entry = self.entries.get(number as usize);
        entry.filter(|(_, memories)| *memories > 0).map(|(name, _)| &**name)
    }

    /// Numbers of the namespaces that `access` denies, sorted.
    pub(crate) fn denied(&self, access: &Access) -> Vec<u32> {
        if access.is_unrestricted() {
            return Vec::new();
        }
        let denied = self.numbers.iter().filter(|(name, _)| !access.allows(name));
        let mut denied: Vec<u32> = denied.map(|(_, number)| *number).collect();
        denied.sort_unstable();
        denied
    }
}
