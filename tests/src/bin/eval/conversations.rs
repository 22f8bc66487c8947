//! Questions about dialogues: FriendsQA (Yang and Choi, 2019), 5,183 utterances and 2,383 questions
//! whose answers are marked in them. Each utterance is a memory and each 25 scenes are a namespace;
//! or each scene is one long memory and each 100 are a namespace.

use std::fs;

use serde_json::Value;
use tests::{array, cache, string};

use crate::{Question, Set};

/// Bytes of a text that its first part certainly covers: some 256 tokens.
pub(crate) const FIRST_PART_BYTES: usize = 1_000;

/// Each utterance is a memory.
pub(crate) fn utterances() -> Set {
    read(25, add_utterances)
}

/// Each scene is a memory.
pub(crate) fn scenes() -> Set {
    read(100, add_scene)
}

/// Reads both halves; `add` adds a scene of the namespace, `scenes` of which are one.
fn read(scenes_per_namespace: usize, add: fn(&mut Set, &Value, &str, bool)) -> Set {
    let mut set = Set::default();
    for (file, is_test) in [("friendsqa_dev.json", false), ("friendsqa_tst.json", true)] {
        let text = fs::read_to_string(cache().join("questions").join(file));
        let document: Value =
            serde_json::from_str(&text.expect("questions.py ran")).expect("it is JSON");
        let mut scenes: Vec<_> = array(&document["data"]).iter().collect();
        scenes.sort_by_key(|scene| string(&scene["title"]));
        for (number, scene) in scenes.into_iter().enumerate() {
            let namespace = format!("{file}-{}", number / scenes_per_namespace);
            for paragraph in array(&scene["paragraphs"]) {
                add(&mut set, paragraph, &namespace, is_test);
            }
        }
    }
    set
}

fn add_utterances(set: &mut Set, paragraph: &Value, namespace: &str, is_test: bool) {
    let first = set.memories.len();
    let texts = array(&paragraph["utterances:"]).iter().map(text);
    set.memories.extend(texts.map(|text| (namespace.to_owned(), text)));
    for question in array(&paragraph["qas"]) {
        let numbers = answers(paragraph, question).into_iter().map(|number| first + number);
        set.questions.push(Question {
            kind: "conversations",
            is_test,
            text: string(&question["question"]).into(),
            namespace: namespace.into(),
            answers: numbers.collect(),
        });
    }
}

fn add_scene(set: &mut Set, paragraph: &Value, namespace: &str, is_test: bool) {
    let number = set.memories.len();
    let (mut scene, mut starts) = (String::new(), Vec::new());
    for utterance in array(&paragraph["utterances:"]) {
        starts.push(scene.len());
        scene += &text(utterance);
        scene.push('\n');
    }
    set.memories.push((namespace.into(), scene));
    for question in array(&paragraph["qas"]) {
        let first = answers(paragraph, question)[0];
        let is_early = starts[first] < FIRST_PART_BYTES;
        set.questions.push(Question {
            kind: if is_early { "scenes: the beginning" } else { "scenes: what follows" },
            is_test,
            text: string(&question["question"]).into(),
            namespace: namespace.into(),
            answers: vec![number],
        });
    }
}

fn text(utterance: &Value) -> String {
    let speakers: Vec<_> = array(&utterance["speakers"]).iter().map(string).collect();
    let said = string(&utterance["utterance"]);
    match speakers.join(" and ").as_str() {
        "#NOTE#" => said.to_owned(),
        speakers => format!("{speakers}: {said}"),
    }
}

/// Numbers of the utterances of a scene that answer a question of it, ascending.
fn answers(paragraph: &Value, question: &Value) -> Vec<usize> {
    let utterances = array(&paragraph["utterances:"]);
    let number = |answer: &Value| {
        let is_answer = |utterance: &Value| utterance["uid"] == answer["utterance_id"];
        utterances.iter().position(is_answer).expect("it is in the paragraph")
    };
    let mut numbers: Vec<_> = array(&question["answers"]).iter().map(number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}
