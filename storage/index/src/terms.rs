//! The terms of a memory in the indexes: its words, key points, facets and numbers.

use model::details::MetadataEntry;
use model::duplicate::same_words_term;
use model::memory::Memory;
use text::form::TextForm;
use text::term::TermHash;
use text::tokenizer::document_words;

/// A name and a number, which orders as its value does.
pub type NumberTerm = (TermHash, u64);

/// Terms by which a memory is found, and the bytes of its texts.
#[derive(Debug, Default)]
pub struct Terms {
    pub words: Vec<TermHash>,
    pub key_points: Vec<TermHash>,
    pub facets: Vec<TermHash>,
    pub numbers: Vec<NumberTerm>,
    pub text_bytes: u64,
    /// As [`TextForm::factor`], if the text changes.
    pub form_factor: Option<f32>,
}

impl Terms {
    /// All terms of a memory.
    pub fn of(memory: &Memory) -> Self {
        let Self { mut facets, numbers, text_bytes, .. } = Self::of_details(memory);
        facets.extend(memory.origin.hashes());
        let TextForm { factor, terms } = TextForm::of(&memory.label);
        facets.extend(terms);
        facets.extend(same_words_term(&memory.label));
        Self {
            words: document_words(memory.texts()),
            key_points: memory.shared_key_points(),
            facets,
            numbers,
            text_bytes: memory.text_bytes() + text_bytes,
            form_factor: Some(factor),
        }
    }

    /// Those of its tags and its metadata.
    pub fn of_details(memory: &Memory) -> Self {
        let Some(details) = &memory.details else { return Self::default() };
        let (facets, text_bytes) = (details.hashes(), details.size_bytes() as u64);
        let numbers = details.metadata.iter().filter_map(number_term).collect();
        Self { facets, numbers, text_bytes, ..Self::default() }
    }
}

/// The term of an entry whose value is a number.
pub fn number_term((name, value): &MetadataEntry) -> Option<NumberTerm> {
    let number = value.parse::<f64>().ok().filter(|number| number.is_finite())?;
    Some((TermHash::of(name), ordered(number)))
}

/// A number whose order is that of these numbers.
pub fn ordered(number: f64) -> u64 {
    // Zero has two signs.
    let bits = (number + 0.0).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}
