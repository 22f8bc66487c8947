//! Words of texts, and nothing else: tokens, stems, identifiers, spelling, patterns of labels, and the
//! words and grammar of times. Nothing here knows a memory.

pub mod ascii_folding;
pub mod calendar;
pub mod identifiers;
pub mod pattern;
pub mod spelling;
pub mod stems;
pub mod term;
pub mod time_grammar;
pub mod time_words;
pub mod tokenizer;
