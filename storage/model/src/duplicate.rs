//! When two texts say the same. A memory is dropped only for one with the same words in the same
//! order: "Ann pays Ben" is not "Ben pays Ann". What people or agents decide about may be nearer to
//! meaning: near texts share most words, but differ neither in a number nor in a negation.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use text::folding::fold_name;
use text::term::TermHash;
use text::tokenizer::content_words;

use crate::edge::SIMILAR_TO;

/// Words of a text that are compared.
const WORDS_MAX: usize = 1_024;
/// Words that reverse the sense of a text.
const NEGATIONS: [&str; 24] = [
    "not", "no", "never", "none", "neither", "nor", "without", "cannot", "nicht", "kein", "keine",
    "keinen", "keiner", "nie", "niemals", "ohne", "pas", "jamais", "aucun", "aucune", "sans",
    "nunca", "ningún", "sin",
];
/// The same in Chinese, where they are characters.
const NEGATING: [char; 4] = ['不', '没', '无', '未'];

named_enum! {
    /// What happens to a new memory whose text the namespace has already.
    pub enum OnDuplicate {
        /// It is created.
        Allow = "allow",
        /// It is not created: the present memory is recalled.
        Merge = "merge",
        /// The request is rejected.
        Reject = "reject",
    }
}

impl OnDuplicate {
    /// What its name must be.
    pub const EXPECTED: &str = "must be allow, merge or reject";
}

/// How new memories are compared with present ones.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Duplicates {
    /// What happens to one, unless its request says otherwise.
    pub on_duplicate: OnDuplicate,
    /// Lowest cosine of near duplicates.
    pub similarity_min: f64,
    /// Lowest share of the words of both texts that near duplicates have in common.
    pub overlap_min: f64,
    /// A duplicate of what was recalled within this time is an echo. 0: none is.
    pub echo_seconds: u32,
}

impl Duplicates {
    /// Whether an edge of this relation and weight joins memories that may be near duplicates.
    pub fn are_similar(&self, relation: &str, weight: f32) -> bool {
        relation == SIMILAR_TO && f64::from(weight) >= self.similarity_min
    }

    /// Whether two texts have the same words, or are near to each other.
    pub fn are_near(&self, left: &str, right: &str) -> bool {
        has_same_words(left, right) || is_near_text(left, right, self.overlap_min)
    }
}

/// The term under which an index has the texts with the same words, by [`has_same_words`]. `None` for a text
/// without words.
pub fn same_words_term(text: &str) -> Option<TermHash> {
    let said = same_words(text);
    // No other term of a facet begins so.
    (!said.is_empty()).then(|| TermHash::of(&format!("said={said}")))
}

/// The words of a text in one form: equal for texts with the same words.
pub fn same_words(text: &str) -> String {
    spoken(text).join(" ")
}

/// Whether two texts have the same words in the same order, and at least one. Case, white space,
/// quotes, punctuation behind a word and the article "the" do not matter.
pub fn has_same_words(left: &str, right: &str) -> bool {
    let of_left = spoken(left);
    !of_left.is_empty() && of_left == spoken(right)
}

/// The words of a text as they are said. Symbols stay: `-5` is not `5`.
fn spoken(text: &str) -> Vec<String> {
    const QUOTES: [char; 9] = ['"', '\'', '`', '“', '”', '„', '‘', '’', '«'];
    const ENDINGS: [char; 11] = ['.', ',', ';', ':', '!', '…', '。', '，', '；', '：', '！'];
    let folded = fold_name(text);
    let words = folded
        .split_whitespace()
        .map(|word| word.trim_matches(QUOTES).trim_end_matches(ENDINGS).trim_matches(QUOTES));
    words.filter(|word| !word.is_empty() && *word != "the").map(str::to_owned).collect()
}

/// Whether two texts have at least the share `overlap_min` of their words in common (Jaccard), and
/// the same numbers and negations.
pub fn is_near_text(left: &str, right: &str, overlap_min: f64) -> bool {
    let words = |text: &str| content_words(text, WORDS_MAX).into_iter().collect::<BTreeSet<_>>();
    let (of_left, of_right) = (words(left), words(right));
    let shared = of_left.intersection(&of_right).count();
    let all = of_left.len() + of_right.len() - shared;
    all > 0 && shared as f64 >= overlap_min * all as f64 && facts(left) == facts(right)
}

/// The words of a text with digits, and its negations, in order.
fn facts(text: &str) -> Vec<String> {
    let folded = fold_name(text);
    let words = folded.split(|c: char| c.is_whitespace() || ",;:!?()[]\"".contains(c));
    let words = words.map(|word| word.trim_matches('.').to_owned());
    let is_fact = |word: &String| {
        word.contains(|c: char| c.is_ascii_digit() || NEGATING.contains(&c))
            || word.ends_with("n't")
            || NEGATIONS.contains(&word.as_str())
    };
    words.filter(is_fact).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_each_word_matter() {
        let sync = "The weekly sync is on Tuesday in room Alpha";
        for same in [
            "the weekly sync is on \"Tuesday\", in room Alpha.",
            "weekly Sync is on Tuesday in the room Alpha!",
        ] {
            assert!(has_same_words(sync, same), "{same}");
            assert_eq!(same_words_term(sync), same_words_term(same), "{same}");
        }
        let pairs = [
            (sync, "The weekly sync is on Thursday in room Alpha"),
            ("Ann pays Ben", "Ben pays Ann"),
            ("move the backup from Paris to London", "move the backup from London to Paris"),
            ("it doesn’t rain", "it does rain"),
            ("the limit is -5", "the limit is 5"),
            ("x == 1", "x != 1"),
            ("Anna Schmidt", "Anna Schmitt"),
            ("the port is 5432.", "the port is 5432?"),
            ("!!", "!!"),
        ];
        for (left, right) in pairs {
            assert!(!has_same_words(left, right), "{left} and {right}");
            let terms = [left, right].map(same_words_term);
            assert!(terms == [None; 2] || terms[0] != terms[1], "{left} and {right}");
        }
    }

    #[test]
    fn numbers_and_negations_matter() {
        let port = "the staging database of the billing team listens on port 5432";
        let near = |text: &str| is_near_text(port, text, 0.8);
        assert!(near("The staging database of the billing team listens on port 5432."));
        assert!(near("staging database of billing team listens on port 5432"));
        assert!(!near("the staging database of the billing team listens on port 5433"));
        assert!(!near("the staging database of the billing team does not listen on port 5432"));
        assert!(!near("the staging database of the billing team doesn't listen on port 5432"));
        assert!(!near("the production database of the sales team listens on port 5432"));
        assert!(!is_near_text("我们不喝茶", "我们喝茶", 0.1));
        assert!(!is_near_text("!!", "??", 0.5), "no words");
    }

    #[test]
    fn edges_of_similarity_join_near_duplicates() {
        let thermo = crate::thermo::Thermo::default();
        let duplicates = Duplicates { similarity_min: 0.9, ..thermo.duplicates };
        assert!(duplicates.are_similar(SIMILAR_TO, 0.95));
        assert!(!duplicates.are_similar(SIMILAR_TO, 0.85));
        assert!(!duplicates.are_similar("works with", 0.95));
    }
}
