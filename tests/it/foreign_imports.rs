//! Files of other products, as people have them, come in completely, or each entry that does not is named. A dry run
//! counts what an import does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;

use super::transfer::command;
use super::*;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("imports")
}

/// Runs `hearth import`.
fn import(cluster: &Cluster, arguments: &[&str]) -> Output {
    let mut command = command(cluster, &["import", "--json"]);
    command.args(arguments).current_dir(fixtures()).output().unwrap()
}

/// Created, skipped and rejected entries of a file.
type Numbers = (u64, u64, u64);

const EXPECTED: [(&str, Numbers); 47] = [
    ("claude_att.json", (5, 1, 0)),
    ("gpt_bom.json", (3, 1, 0)),
    ("gpt_hidden.json", (2, 4, 0)),
    ("gpt_nul.json", (1, 0, 0)),
    ("gpt_single.json", (3, 1, 0)),
    ("gpt_surrogate.json", (2, 0, 0)),
    ("gpt_voice_branch.json", (3, 1, 0)),
    ("gpt_wrapped.json", (3, 1, 0)),
    ("kg_array.json", (5, 0, 0)),
    ("mem0_bom.json", (1, 0, 0)),
    ("mem0_cats.json", (2, 0, 1)),
    ("mem0_empty.json", (2, 2, 0)),
    ("mem0_epochstr.json", (1, 0, 0)),
    ("mem0_expire.json", (1, 0, 0)),
    ("mem0_expired.json", (0, 1, 0)),
    ("mem0_ids.json", (5, 0, 0)),
    ("mem0_naive.json", (1, 0, 0)),
    ("mem0_openmemory.json", (1, 1, 0)),
    ("mem0_paged.json", (1, 1, 0)),
    ("mem0_single.json", (1, 0, 0)),
    ("mem0_space.json", (1, 0, 0)),
    ("mem0_v1.json", (1, 0, 0)),
    ("kg_blank.jsonl", (4, 0, 0)),
    ("kg_bom.jsonl", (5, 0, 0)),
    ("kg_created.jsonl", (3, 0, 0)),
    ("kg_crlf.jsonl", (5, 0, 0)),
    ("kg_cut.jsonl", (5, 0, 1)),
    ("kg_dangling.jsonl", (3, 0, 0)),
    ("kg_fromentity.jsonl", (3, 0, 0)),
    ("kg_good.jsonl", (5, 0, 0)),
    ("kg_longname.jsonl", (2, 0, 2)),
    ("kg_longobs.jsonl", (4, 0, 0)),
    ("kg_nonl.jsonl", (5, 0, 0)),
    ("kg_noobs.jsonl", (3, 0, 0)),
    ("kg_notype.jsonl", (3, 0, 0)),
    ("kg_obsempty.jsonl", (2, 0, 0)),
    ("kg_obsnull.jsonl", (1, 0, 0)),
    ("kg_obsobj.jsonl", (2, 0, 0)),
    ("kg_obsstr.jsonl", (2, 0, 0)),
    ("kg_surrogate.jsonl", (4, 0, 0)),
    ("kg_undertype.jsonl", (2, 0, 0)),
    ("kg_unknown.jsonl", (2, 0, 1)),
    ("kg_uppercase.jsonl", (2, 0, 0)),
    ("kg_utf16.jsonl", (5, 0, 0)),
    ("mem0_lines.jsonl", (2, 0, 0)),
    ("mem0_openmemory.jsonl", (1, 0, 0)),
    ("md", (9, 2, 1)),
];

#[test]
fn files_come_in_completely_or_are_named() {
    let cluster = options().start();
    let expected: BTreeMap<_, _> = EXPECTED.into_iter().collect();
    let files = std::fs::read_dir(fixtures()).unwrap();
    let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    for file in files.filter(|file| file != "empty.json") {
        let expected = expected.get(&*file).unwrap_or_else(|| panic!("{file} is not in the table"));
        let mut both = [&["--dry-run"][..], &[]].map(|options| {
            let arguments = [&[&*file, "--namespace", &file], options].concat();
            let output = import(&cluster, &arguments);
            let summary: Value = serde_json::from_slice(&output.stdout)
                .unwrap_or_else(|_| panic!("{file}: {}", String::from_utf8_lossy(&output.stderr)));
            let number = |name: &str| summary[name].as_u64().unwrap();
            let skipped = summary["skipped"].as_object().unwrap().values();
            let skipped = skipped.map(|count| count.as_u64().unwrap()).sum();
            let errors = array(&summary["errors"]);
            assert_eq!(errors.len() as u64, number("rejected"), "each is named: {summary}");
            assert_eq!((number("present"), number("merged")), (0, 0), "{file}");
            let numbers = (number("created"), skipped, number("rejected"));
            let succeeds = numbers.0 > 0 && numbers.2 == 0;
            assert_eq!(output.status.success(), succeeds, "{file}: {summary}");
            numbers
        });
        assert_eq!(both[0], both[1], "{file}: the dry run counts what the import does");
        assert_eq!(std::mem::take(&mut both[1]), *expected, "{file}");
    }
}

#[test]
fn rejected_entries_are_written_to_a_file() {
    let cluster = options().start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rejects");
    let output = import(&cluster, &["kg_cut.jsonl", "--rejects", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(6), "the request is invalid in part");
    let rejects = std::fs::read_to_string(&file).unwrap();
    let reject: Value = serde_json::from_str(rejects.trim()).unwrap();
    assert_eq!(reject["place"], "line 4");
    assert!(
        string(&reject["entry"]).starts_with("{\"type\":\"entity\",\"name\":\"Olaf\""),
        "{reject}"
    );
}

#[tokio::test]
async fn times_of_entries_are_theirs() {
    let cluster = options().start();
    for (file, label, time) in [
        ("kg_created.jsonl", "likes rust", "2025-02-03T10:00:00Z"),
        ("mem0_naive.json", "Nina moved to Oslo", "2024-07-20T01:30:36.275141Z"),
        ("mem0_epochstr.json", "Nina moved to Vaasa", "2024-07-20T07:30:36Z"),
    ] {
        assert!(import(&cluster, &[file]).status.success(), "{file}");
        let search = json!({"query": label, "namespace": "*", "limit": 1});
        let found = cluster.post("/agent/search", &search).await;
        assert_eq!((&found[0]["label"], &found[0]["created_at"]), (&json!(label), &json!(time)));
    }
}

#[test]
fn unknown_files_name_the_formats() {
    let cluster = options().start();
    let folder = tempfile::tempdir().unwrap();
    for (content, reason) in [("[]", "has no entries"), ("{\"a\": 1}", "knowledge-graph")] {
        let file = folder.path().join("file.json");
        std::fs::write(&file, content).unwrap();
        let output = import(&cluster, &[file.to_str().unwrap()]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(reason), "{error}");
    }
}
