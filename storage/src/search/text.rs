//! The bound of the text in one result. JSON may take twelve times as many bytes: it contains the
//! label twice, and a control character takes six bytes.

use model::details::DETAILS_BYTES_MAX;
use model::edge::SUPERSEDED_MAX;
use model::memory::{KEY_POINT_BYTES_MAX, KEY_POINTS_MAX, LABEL_BYTES_MAX, Memory};

/// Most bytes of labels, key points, tags and metadata in a result. It ends before the memory that exceeds them.
/// Pages of a list are exempt: clients take a short page for the last one.
pub const TEXT_BYTES_MAX: usize = 4 << 20;

const _: () = assert!(
    SUPERSEDED_MAX * (LABEL_BYTES_MAX + KEY_POINTS_MAX * KEY_POINT_BYTES_MAX + DETAILS_BYTES_MAX)
        <= TEXT_BYTES_MAX,
    "the first memory always fits, and so does the first group that can be folded"
);

/// Text that a result may still take, in bytes.
pub(crate) struct TextRoom(pub(crate) usize);

impl TextRoom {
    /// Takes the texts of a memory. Returns whether they fit.
    pub(crate) fn take(&mut self, memory: &Memory) -> bool {
        let rest = self.0.checked_sub(memory.stored_bytes() as usize);
        self.0 = rest.unwrap_or(0);
        rest.is_some()
    }
}

impl Default for TextRoom {
    fn default() -> Self {
        Self(TEXT_BYTES_MAX)
    }
}
