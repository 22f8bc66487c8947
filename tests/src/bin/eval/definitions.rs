//! Questions about words: definitions of WordNet, in an order that means nothing. The question has
//! the word, which the definition does not contain, or words of the definition with a typing error.

use std::fs;

use tests::cache;
use tests::engine::random;

use crate::conversations::FIRST_PART_BYTES;
use crate::{Question, Set};

const MEMORIES: usize = 4_000;
/// Definitions of a list. They have some 2,000 tokens.
const PER_LIST: usize = 160;
const MEANING: &str = "words by their meaning";

pub(crate) fn set() -> Set {
    let text = fs::read_to_string(cache().join("glosses/terms.txt")).expect("glosses.py ran");
    let mut terms: Vec<_> = text.lines().filter_map(|line| line.split_once('\t')).collect();
    let of_one_word = |(term, definition): &(&str, &str)| {
        term.bytes().all(|byte| byte.is_ascii_lowercase()) && !definition.contains(term)
    };
    terms.retain(of_one_word);
    terms.sort_by_cached_key(|(term, _)| {
        random(term.bytes().fold(7, |seed, byte| seed * 31 % 1_000_003 + u64::from(byte)))
    });
    terms.truncate(MEMORIES);
    let mut questions = Vec::new();
    for (number, (term, definition)) in terms.iter().enumerate().step_by(4) {
        let question = |kind, text| Question {
            kind,
            is_test: number % 8 == 0,
            text,
            namespace: "default".into(),
            answers: vec![number],
        };
        questions.push(question(MEANING, format!("What is {term}?")));
        questions.push(question("definitions with a typing error", misspelled(definition, number)));
    }
    let memories = terms.iter().map(|(_, definition)| ("default".into(), (*definition).into()));
    Set { memories: memories.collect(), questions }
}

/// Lists of definitions: each is one long memory. The question has a word of the list.
pub(crate) fn lists() -> Set {
    let definitions = set();
    let (mut memories, mut is_early) = (Vec::new(), Vec::new());
    for group in definitions.memories.chunks(PER_LIST) {
        let mut list = String::new();
        for (_, definition) in group {
            is_early.push(list.len() < FIRST_PART_BYTES);
            list += definition;
            list += ".\n";
        }
        memories.push(("default".into(), list));
    }
    let of_meaning = definitions.questions.into_iter().filter(|question| question.kind == MEANING);
    let questions = of_meaning.map(|question| {
        let number = question.answers[0];
        let kind = if is_early[number] { "lists: the beginning" } else { "lists: what follows" };
        Question { kind, answers: vec![number / PER_LIST], ..question }
    });
    Set { memories, questions: questions.collect() }
}

/// The longest words of a text, two letters of the longest one exchanged.
fn misspelled(text: &str, seed: usize) -> String {
    let mut words: Vec<_> = text.split(|letter: char| !letter.is_alphanumeric()).collect();
    words.sort_by_key(|word| std::cmp::Reverse(word.len()));
    let mut longest: Vec<_> = words[0].chars().collect();
    if longest.len() > 2 {
        let at = 1 + random(seed as u64) as usize % (longest.len() - 2);
        longest.swap(at, at + 1);
    }
    words.iter().skip(1).take(2).fold(String::from_iter(longest), |text, word| text + " " + word)
}
