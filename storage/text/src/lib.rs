//! Words of texts, and nothing else: tokens, stems, identifiers, spelling, patterns of labels, and the
//! words and grammar of times. Nothing here knows a memory.

pub mod calendar;
pub mod folding;
pub mod form;
pub mod identifiers;
pub mod pattern;
pub mod spelling;
pub mod stems;
pub mod term;
pub mod time_chinese;
pub mod time_grammar;
pub mod time_tables;
pub mod time_words;
pub mod tokenizer;

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The steps by which words and forms of texts take part in the ranking. A measurement leaves them out one by
/// one; nodes have all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The words of a long text count less.
    Length,
    /// Irregular forms have the stem of their base.
    IrregularForms,
    /// Words of the memories before count a little.
    WordsBefore,
    /// A short question counts less, and passes more to the next memory.
    Questions,
    /// The author that the query names counts more.
    Authors,
    /// The words of a very short text count less.
    Brevity,
}

static LEFT_OUT: AtomicU32 = AtomicU32::new(0);

impl Step {
    /// All, with their names.
    pub const ALL: [(&str, Self); 6] = [
        ("length", Self::Length),
        ("irregular-forms", Self::IrregularForms),
        ("words-before", Self::WordsBefore),
        ("questions", Self::Questions),
        ("authors", Self::Authors),
        ("brevity", Self::Brevity),
    ];

    /// Whether it takes part.
    pub fn is_on(self) -> bool {
        LEFT_OUT.load(Relaxed) & (1 << self as u32) == 0
    }

    /// Leaves it out from now on, for texts and queries that come. Only measurements call it.
    pub fn leave_out(self) {
        LEFT_OUT.fetch_or(1 << self as u32, Relaxed);
    }
}
