//! Retired words and names stay retired, and test names stay short. The words and names are in
//! the tables "Retired …" of docs/glossary.md.

use std::collections::BTreeSet;
use std::fs;

use super::sizes::functions;
use super::{CRATES, ENGINE, Source, assert_none, files, root, rust_files};

const GLOSSARY: &str = "docs/glossary.md";

const WORDS_PER_TEST_NAME_MAX: usize = 8;

/// The first column of the table in a section of the glossary.
fn retired(section: &str) -> Vec<String> {
    let glossary = fs::read_to_string(root().join(GLOSSARY)).unwrap();
    let section = glossary.split(&format!("\n## {section}\n")).nth(1).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let words: Vec<_> =
        rows.flat_map(|cell| cell.split('`').step_by(2).map(str::to_owned)).collect();
    assert!(words.len() > 2, "{GLOSSARY} has no such table: {words:?}");
    words
}

/// A line in lower case, with the words of CamelCase names separated.
fn normalized(line: &str) -> String {
    let (mut text, mut last) = (String::new(), ' ');
    for letter in line.chars() {
        if letter.is_uppercase() && (last.is_lowercase() || last.is_ascii_digit()) {
            text.push(' ');
        }
        text.extend(letter.to_lowercase());
        last = letter;
    }
    text
}

/// Whether a normalized line contains a whole word or phrase. `_` separates words.
fn contains(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let is_inside = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
        !is_inside(before) && !is_inside(after)
    })
}

/// A line without the marks of comments, lists and quotes.
fn prose(line: &str) -> &str {
    line.trim_start().trim_start_matches(['/', '!', '#', '*', '-', '>', ' '])
}

fn find(file: &Source, words: &[String]) -> Vec<String> {
    let lines: Vec<_> = file.text.lines().map(normalized).collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let next = lines.get(at + 1).map_or("", |next| prose(next));
        let both = format!("{line} {next}");
        for word in words {
            // A phrase may continue on the next line.
            let continues = word.contains(' ') && contains(&both, word) && !contains(next, word);
            if contains(line, word) || continues {
                found.push(format!("{}:{}: {word}", file.path, at + 1));
            }
        }
    }
    found
}

/// The documents, with docs/openapi.json.
pub fn documents() -> Vec<Source> {
    let mut all = files(&["docs", "deploy"], "md");
    let designs = CRATES.into_iter().chain(ENGINE).map(|name| format!("{name}/DESIGN.md"));
    let of_root = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"].map(str::to_owned);
    for path in of_root.into_iter().chain(designs.collect::<BTreeSet<_>>()) {
        let text = fs::read_to_string(root().join(&path)).unwrap();
        all.push(Source { path, text });
    }
    all.extend(files(&["docs"], "json"));
    all
}

#[test]
fn retired_words_are_gone() {
    let words: Vec<_> = retired("Retired words").iter().map(|word| word.to_lowercase()).collect();
    let all = rust_files().into_iter().chain(documents()).filter(|file| file.path != GLOSSARY);
    let violations: Vec<_> = all.flat_map(|file| find(&file, &words)).collect();
    assert_none("words that docs/glossary.md retires", &violations);
}

/// `path:line` of each line of files that has one of these names. `names_of` returns the names of
/// a line.
fn find_names(files: &[Source], names: &[String], names_of: fn(&str) -> Vec<&str>) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        for (line, number) in file.text.lines().zip(1..) {
            let name = names_of(line).into_iter().find(|name| names.iter().any(|of| of == name));
            found.extend(name.map(|name| format!("{}:{number}: {name}", file.path)));
        }
    }
    found
}

/// The names in the code of a line.
fn code_names(line: &str) -> Vec<&str> {
    let code = line.split("//").next().unwrap_or_default();
    code.split(|letter: char| !letter.is_alphanumeric() && letter != '_').collect()
}

#[test]
fn retired_names_are_gone() {
    let (code, json) = (rust_files(), files(&["docs"], "json"));
    let types = find_names(&code, &retired("Retired types"), code_names);
    let names = find_names(&json, &retired("Retired JSON names"), |line| line.split('"').collect());
    assert_none("names that were replaced", &[types, names].concat());
}

#[test]
fn test_names_have_at_most_eight_words() {
    let mut violations = Vec::new();
    for file in rust_files() {
        let is_long = |name: &str| name.split('_').count() > WORDS_PER_TEST_NAME_MAX;
        for test in functions(&file).iter().filter(|it| it.is_test && is_long(&it.name)) {
            violations.push(format!("{}:{}: {}", file.path, test.line, test.name));
        }
    }
    assert_none("test names are too long", &violations);
}
