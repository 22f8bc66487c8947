//! The keyword overlaps of memories: what their words give, times the factor of their form.
//!
//! ```text
//! own  = words · form
//! form = factor of length, brevity and question · 1.2 if the query names the author
//! ```
//!
//! [`crate::inverted_index`] computes `words`, and [`text::form`] says what the form of a text is.

use roaring::RoaringBitmap;
use text::Step;
use text::form::question_term;
use text::term::TermHash;

use crate::chunk::Chunk;
use crate::data::IndexData;
use crate::inverted_index::{QueryTerms, QueryWord};
use crate::{CHUNK_ROWS, Slot, chunk_of, row_of, slot_at};

/// Factor of the overlap of a memory whose author the query names.
const AUTHOR_FACTOR: f64 = 1.2;
/// Rows of a chunk that are looked up one by one in the postings.
const LOOKED_UP_MAX: usize = 4;

/// What a query asks of the words of a memory, and of its author.
pub struct OverlapTerms {
    pub words: QueryTerms,
    /// Only those of memories.
    authors: Vec<TermHash>,
}

impl OverlapTerms {
    /// An upper bound of every overlap.
    pub fn overlap_max(&self) -> f64 {
        let form_max = if self.authors.is_empty() { 1.0 } else { AUTHOR_FACTOR };
        self.words.overlap_max() * form_max
    }
}

impl IndexData {
    /// The terms of a query that names these authors and has these words, among the memories in `visible`, or all.
    pub fn overlap_terms(
        &self,
        mut authors: Vec<TermHash>,
        words: Vec<QueryWord>,
        visible: Option<&RoaringBitmap>,
    ) -> OverlapTerms {
        authors.retain(|term| self.facets.frequency(*term, None) > 0);
        let words = self.words.query_terms(words, visible, self.live());
        OverlapTerms { words, authors }
    }

    /// Writes the overlap of each row of a chunk to `overlaps`.
    pub fn overlaps(
        &self,
        terms: &OverlapTerms,
        number: usize,
        chunk: &Chunk,
        overlaps: &mut [f64; CHUNK_ROWS],
    ) {
        self.words.keyword_overlaps(&terms.words, number, overlaps);
        for (overlap, factor) in overlaps.iter_mut().zip(&chunk.form_factors) {
            *overlap *= f64::from(*factor);
        }
        if terms.authors.is_empty() {
            return;
        }
        // Of an author with two names the query may say both.
        let mut is_named = [false; CHUNK_ROWS];
        let (first, last) = (slot_at(number, 0), slot_at(number, CHUNK_ROWS - 1));
        for author in &terms.authors {
            let mark = |slot: Slot| is_named[(slot - first) as usize] = true;
            self.facets.for_each(*author, first..=last, mark);
        }
        for (overlap, is_named) in overlaps.iter_mut().zip(is_named) {
            *overlap *= if is_named { AUTHOR_FACTOR } else { 1.0 };
        }
    }

    /// Writes the overlaps of some rows of a chunk to `overlaps`, which is indexed by row.
    pub fn overlaps_of(
        &self,
        terms: &OverlapTerms,
        number: usize,
        chunk: &Chunk,
        rows: &[u16],
        overlaps: &mut [f64; CHUNK_ROWS],
    ) {
        if rows.len() > LOOKED_UP_MAX {
            return self.overlaps(terms, number, chunk, overlaps);
        }
        for row in rows.iter().map(|row| usize::from(*row)) {
            let slot = slot_at(number, row);
            let words = self.words.keyword_overlap(&terms.words, slot);
            // In the order of the products above.
            overlaps[row] = words * self.length_factor(slot) * self.author_factor(terms, slot);
        }
    }

    /// The form of a slot in use.
    pub fn form(&self, terms: &OverlapTerms, slot: Slot) -> f64 {
        self.length_factor(slot) * self.author_factor(terms, slot)
    }

    fn length_factor(&self, slot: Slot) -> f64 {
        self.chunks[chunk_of(slot)].form_factors[row_of(slot)].into()
    }

    fn author_factor(&self, terms: &OverlapTerms, slot: Slot) -> f64 {
        let is_named = terms.authors.iter().any(|term| self.facets.contains(*term, slot));
        if is_named { AUTHOR_FACTOR } else { 1.0 }
    }

    /// Whether a slot has a short question.
    pub fn is_question(&self, slot: Slot) -> bool {
        Step::Questions.is_on() && self.facets.contains(question_term(), slot)
    }
}
