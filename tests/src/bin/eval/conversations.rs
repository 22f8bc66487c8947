//! Questions about dialogues: FriendsQA (Yang and Choi, 2019), 5,183 utterances and 2,383 questions
//! whose answers are marked in them. Each utterance is a memory, each 25 scenes are a namespace.

use std::fs;

use serde_json::Value;
use tests::{array, cache, string};

use crate::{Question, Set};

const SCENES: usize = 25;

pub(crate) fn set() -> Set {
    let mut set = Set { memories: Vec::new(), questions: Vec::new() };
    for (file, is_test) in [("friendsqa_dev.json", false), ("friendsqa_tst.json", true)] {
        let text = fs::read_to_string(cache().join("questions").join(file));
        let document: Value =
            serde_json::from_str(&text.expect("questions.py ran")).expect("it is JSON");
        let mut scenes: Vec<_> = array(&document["data"]).iter().collect();
        scenes.sort_by_key(|scene| string(&scene["title"]));
        for (number, scene) in scenes.into_iter().enumerate() {
            let namespace = format!("{file}-{}", number / SCENES);
            for paragraph in array(&scene["paragraphs"]) {
                add(&mut set, paragraph, &namespace, is_test);
            }
        }
    }
    set
}

fn add(set: &mut Set, paragraph: &Value, namespace: &str, is_test: bool) {
    let first = set.memories.len();
    let utterances = array(&paragraph["utterances:"]);
    for utterance in utterances {
        let speakers: Vec<_> = array(&utterance["speakers"]).iter().map(string).collect();
        let said = string(&utterance["utterance"]);
        let text = match speakers.join(" and ").as_str() {
            "#NOTE#" => said.to_owned(),
            speakers => format!("{speakers}: {said}"),
        };
        set.memories.push((namespace.into(), text));
    }
    let number = |answer: &Value| {
        let is_answer = |utterance: &Value| utterance["uid"] == answer["utterance_id"];
        first + utterances.iter().position(is_answer).expect("it is in the paragraph")
    };
    for question in array(&paragraph["qas"]) {
        let mut answers: Vec<_> = array(&question["answers"]).iter().map(number).collect();
        answers.sort_unstable();
        answers.dedup();
        set.questions.push(Question {
            kind: "conversations",
            is_test,
            text: string(&question["question"]).into(),
            namespace: namespace.into(),
            answers,
        });
    }
}
