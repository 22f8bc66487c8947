//! The filterable attributes of a memory, packed into 64 bits.
//!
//! A filter compiles to a mask and a value. A row matches if `attributes & mask == value`,
//! one comparison per row. A scan over a million rows reads 8 MB.

use model::memory::{DecayClass, Memory, MemoryType, Tier};

/// Packed attributes: flags, decay class and type in a byte each, the number of the
/// namespace in the upper half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes(u64);

const LIVE: u64 = 1;
const PINNED: u64 = 2;
const FLAGGED: u64 = 4;
const ARCHIVED: u64 = 8;
const SUPERSEDED: u64 = 16;
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
                | (u64::from(memory.superseded_by.is_some()) * SUPERSEDED),
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
    ) -> Self {
        let flag = |mask: Self, flag: u64, is_set: Option<bool>| {
            mask.and(flag, is_set.map(u64::from), flag.trailing_zeros())
        };
        flag(flag(flag(self, PINNED, pinned), FLAGGED, flagged), ARCHIVED, archived)
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
