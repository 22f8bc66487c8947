//! The form of a text, as far as the keyword overlap of a search depends on it: how long it is, whether it is
//! a short question, and who writes it.
//!
//! Messages of a chat often begin with their time and their author: `[8 May 2023] Ann Keller: I …`.

use std::borrow::Cow;

use crate::Step;
use crate::folding::fold_word;
use crate::term::{TermHash, is_stop_word};
use crate::tokenizer::is_unspaced;

/// Words from which each of them counts less: a long text has many words by chance. And the least factor, since
/// the vector of a long text says little of its end.
const LONG_WORDS: f32 = 50.0;
const LONG_FACTOR_MIN: f32 = 0.6;
/// Factors of texts with 0 to 7 content words: their share of 8, to the power 0.1. Short texts say little.
const BRIEF_FACTORS: [f32; 8] =
    [0.812_252, 0.812_252, 0.870_551, 0.906_574, 0.933_033, 0.954_087, 0.971_642, 0.986_736];
/// Factor of a short question, which has the words that its answer lacks.
const QUESTION_FACTOR: f32 = 0.9;
/// Most words of a short question.
const QUESTION_WORDS_MAX: usize = 25;
/// Longest name of an author, in bytes and in words.
const AUTHOR_BYTES_MAX: usize = 64;
const AUTHOR_WORDS_MAX: usize = 4;
/// Words of his name by which an author is found.
const NAMES_MAX: usize = 2;
/// Words of a query that may name an author.
const QUERY_WORDS_MAX: usize = 128;
/// Longest text in brackets before an author, in bytes.
const BRACKETS_BYTES_MAX: usize = 64;
/// The author whom a query means that says "I".
const USER: &str = "user";

/// Words by which an author means himself.
const FIRST_PERSON: [&str; 14] = [
    "i", "i'm", "i've", "i'd", "i'll", "my", "me", "mine", "myself", "we", "we're", "we've", "our",
    "us",
];

/// The form of the text of a memory.
#[derive(Debug, Clone, PartialEq)]
pub struct TextForm {
    /// Factor of the keyword overlap: above 0, at most 1.
    pub factor: f32,
    /// Terms by which searches find it.
    pub terms: Vec<TermHash>,
}

impl TextForm {
    /// The form of a text.
    pub fn of(text: &str) -> Self {
        let (author, said) = split_author(text);
        let (words, content_words) = lengths(said);
        let is_question =
            said.trim_end().ends_with(['?', '？']) && (1..=QUESTION_WORDS_MAX).contains(&words);
        let mut factor = 1.0;
        if Step::Length.is_on() && words > LONG_WORDS as usize {
            // The fourth root, which has the same bits on every node.
            factor *= (LONG_WORDS / words as f32).sqrt().sqrt().max(LONG_FACTOR_MIN);
        }
        if let Some(brief) = BRIEF_FACTORS.get(content_words).filter(|_| Step::Brevity.is_on()) {
            factor *= brief;
        }
        if Step::Questions.is_on() && is_question {
            factor *= QUESTION_FACTOR;
        }
        let mut terms = Vec::new();
        if is_question {
            terms.push(question_term());
        }
        if !author.is_empty() && said.split_whitespace().any(is_first_person) {
            let names = parts(author).filter(|name| !name.is_empty()).take(NAMES_MAX);
            terms.extend(names.map(|name| author_term(&lower(name))));
        }
        Self { factor, terms }
    }
}

/// The term of short questions.
pub fn question_term() -> TermHash {
    TermHash::of("form=question")
}

/// The terms of texts in which an author whom the query names speaks of himself.
pub fn named_authors(query: &str) -> Vec<TermHash> {
    let mut authors = Vec::new();
    if !Step::Authors.is_on() {
        return authors;
    }
    for word in parts(query).take(QUERY_WORDS_MAX) {
        let lower = lower(word);
        let name = match lower.strip_suffix("'s").unwrap_or(&lower) {
            // "US" is a country.
            me if FIRST_PERSON.contains(&me) && me != "us" => USER,
            name if is_stop_word(name) || name.is_empty() => continue,
            name => name,
        };
        let term = author_term(name);
        if !authors.contains(&term) {
            authors.push(term);
        }
    }
    authors
}

/// The words of a query or of a name.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '’')
}

fn author_term(name: &str) -> TermHash {
    TermHash::of(&format!("form=author={name}"))
}

/// The number of words, and of those that are no stop words, which is counted up to 8.
fn lengths(text: &str) -> (usize, usize) {
    let (mut words, mut content_words) = (0, 0);
    for word in text.split_whitespace() {
        // In a script without spaces, two characters are about a word.
        let pairs = match word.is_ascii() {
            true => 0,
            false => word.chars().filter(|c| is_unspaced(*c)).count() / 2,
        };
        words += 1 + pairs;
        if content_words < BRIEF_FACTORS.len() {
            let lower = lower(word);
            let is_content = !lower.is_empty() && !is_stop_word(&lower);
            content_words += usize::from(is_content) + pairs;
        }
    }
    (words, content_words)
}

/// The author of a text, which is empty if it names none, and what he says.
fn split_author(text: &str) -> (&str, &str) {
    let start = text.trim_start();
    let start = match start.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((inside, rest)) if inside.len() <= BRACKETS_BYTES_MAX => rest.trim_start(),
        _ => start,
    };
    let is_name = |name: &str| {
        name.len() <= AUTHOR_BYTES_MAX
            && !name.contains('\n')
            && (1..=AUTHOR_WORDS_MAX).contains(&name.split_whitespace().count())
    };
    match start.split_once(':') {
        Some((name, said)) if is_name(name) && said.starts_with(char::is_whitespace) => {
            (name, said)
        }
        _ => ("", text),
    }
}

fn is_first_person(word: &str) -> bool {
    // The longest one has six letters.
    word.len() <= 10 && FIRST_PERSON.contains(&&*lower(word))
}

/// A word without punctuation around it, as the tokenizer folds it.
fn lower(word: &str) -> Cow<'_, str> {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric());
    match word.is_ascii() {
        true if !word.bytes().any(|byte| byte.is_ascii_uppercase()) => word.into(),
        true => word.to_ascii_lowercase().into(),
        false => fold_word(&word.replace('\u{2019}', "'")).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factor(text: &str) -> f32 {
        TextForm::of(text).factor
    }

    #[test]
    fn long_and_very_short_texts_count_less() {
        let text = |words: usize| "river ".repeat(words);
        assert_eq!(factor(&text(8)), 1.0);
        assert_eq!(factor(&text(50)), 1.0);
        assert!((factor(&text(4 * 50)) - 0.5_f32.sqrt()).abs() < 1e-6);
        assert_eq!(factor(&text(1_000)), LONG_FACTOR_MIN);
        assert_eq!(factor(&text(1)), BRIEF_FACTORS[1]);
        assert_eq!(factor("the river is in the what"), BRIEF_FACTORS[1], "stop words say nothing");
        assert!(factor("").is_normal());
        assert_eq!(factor("我喜欢编程和咖啡也喜欢猫"), BRIEF_FACTORS[7], "pairs of characters");
    }

    #[test]
    fn brief_factors_are_powers_of_shares() {
        for (words, factor) in BRIEF_FACTORS.into_iter().enumerate() {
            let expected = (words.max(1) as f32 / 8.0).powf(0.1);
            assert!((factor - expected).abs() < 1e-6, "{words}");
        }
    }

    #[test]
    fn short_questions_are_found_as_such() {
        let is_question = |text: &str| TextForm::of(text).terms.contains(&question_term());
        assert!(is_question("Ann: Where did you go to school? "));
        assert!(is_question("黒い猫はどこですか？"));
        assert!(!is_question("Where? I know it."));
        assert!(!is_question(&format!("{}?", "word ".repeat(26))));
        assert!(!is_question("?!") && !is_question("Ann: "));
    }

    #[test]
    fn authors_are_found_by_their_names() {
        let is_written_by = |query: &str, text: &str| {
            named_authors(query).iter().any(|term| TextForm::of(text).terms.contains(term))
        };
        let text = "[8 May 2023] Ann Keller: I moved to Lyon.";
        assert!(is_written_by("Where does Ann live?", text));
        assert!(is_written_by("What is Keller's town?", text));
        assert!(!is_written_by("Where does Tom live?", text));
        assert!(
            !is_written_by("Where does Ann live?", "Ann: Tom moved to Lyon."),
            "not of herself"
        );
        assert!(!is_written_by("Where does Ann live?", "Ann is what I call her."), "no author");
        assert!(is_written_by("Where do I live?", "user: I’ve moved to Lyon."));
        assert!(is_written_by("what does the user drink", "user: Tea is my drink."));
        assert!(is_written_by("Wo wohnt Jürgen?", "Jurgen: my town is Lyon"));
        assert!(!is_written_by("http", "http://example.org is my page"), "an address");
    }
}
