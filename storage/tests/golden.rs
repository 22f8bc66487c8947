//! Golden scripts for decide and apply. Each file of `golden/` lists commands and their full
//! printed effect. Its name is the claim. `UPDATE_GOLDEN=1` rewrites the printed lines; review
//! them before a commit.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;
#[path = "common/line.rs"]
mod line;
#[path = "common/print.rs"]
mod print;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use common::{Engine, TENANT, command, new_memory, vector};
use line::Line;
use print::{change_text, memory_text, name, outcome};
use storage::model::id::{MemoryId, Timestamp, TriggerId};
use storage::model::trigger::TriggerEvent;
use storage::model::trigger_match::SkipReason;
use storage::{
    Action, ApplyOutcome, Change, Command, Filter, HotRequest, ListRequest, Options, SearchRequest,
    TierFilter,
};

/// The most lines per command, and bytes per line, that a script prints.
const LINES_MAX: usize = 60;
const LINE_BYTES_MAX: usize = 400;

#[test]
fn golden_scripts_print_the_recorded_effects() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut scripts: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    scripts.sort();
    assert!(scripts.len() >= 12, "scripts are missing");
    let mut differing = Vec::new();
    for path in scripts {
        let expected = std::fs::read_to_string(&path).unwrap();
        let printed = Script::default().run(&expected);
        if printed != expected {
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                std::fs::write(&path, &printed).unwrap();
            }
            differing.push(format!("{}:\n{printed}", path.display()));
        }
    }
    assert!(differing.is_empty(), "other effects:\n{}", differing.join("\n"));
}

#[derive(Default)]
struct Script {
    now: i64,
    out: String,
}

impl Script {
    /// Runs every `> ` line of a script and returns the script with the printed effects.
    fn run(mut self, script: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = Some(Engine::open(folder.path(), Options::default()));
        for line in script.lines() {
            if line.starts_with('#') {
                writeln!(self.out, "{line}").unwrap();
            } else if let Some(text) = line.strip_prefix("> ") {
                writeln!(self.out, "> {text}").unwrap();
                if text == "restart" {
                    drop(engine.take());
                    engine = Some(Engine::open(folder.path(), Options::default()));
                } else {
                    self.line(engine.as_mut().unwrap(), text);
                }
            }
        }
        self.out
    }

    fn line(&mut self, engine: &mut Engine, text: &str) {
        let line = Line::parse(text);
        match line.words[0].as_str() {
            "wait" => self.now += micros(&line.words[1]),
            "create-many" => self.create_many(engine, &line),
            "triggers" => self.create_triggers(engine, line.words[1].parse().unwrap()),
            "limit" => self.limit(engine, line.words[1].parse().unwrap()),
            "stale" => self.stale(engine, &Line::parse(text.split_once(' ').unwrap().1)),
            "get" => {
                let found = engine.reader.get(TENANT, line.id()).unwrap();
                self.print(&found.map_or_else(|| "not found".into(), |found| memory_text(&found)));
            }
            "list" | "hot" | "search" => self.read(engine, &line),
            "evaluate" => self.evaluate(engine, &line),
            _ => self.decide(engine, text),
        }
    }

    /// Decides the commands of one line, separated by `; `, into one batch.
    fn decide(&mut self, engine: &mut Engine, text: &str) {
        self.now += 1;
        let commands: Vec<_> = text.split("; ").map(|part| Line::parse(part).command()).collect();
        let (decisions, batch) = engine.decide(Timestamp(self.now), &commands);
        let mut lines: Vec<_> = decisions.iter().map(outcome).collect();
        lines.extend(batch.changes.iter().map(|change| format!("+ {}", change_text(change))));
        // Long effects are printed without their middle.
        let omitted = lines.len().saturating_sub(LINES_MAX);
        for (at, line) in lines.iter().enumerate() {
            if omitted > 0 && at == LINES_MAX / 2 {
                self.print(&format!("... {omitted} more lines"));
            }
            if at < LINES_MAX / 2 || at >= LINES_MAX / 2 + omitted {
                let end = line.floor_char_boundary(LINE_BYTES_MAX);
                self.print(&line[..end]);
            }
        }
        assert_eq!(engine.apply(&batch), ApplyOutcome::Done);
    }

    /// Decides a command, applies another batch, then applies the first one.
    fn stale(&mut self, engine: &mut Engine, line: &Line) {
        let (_, stale) = engine.decide(Timestamp(self.now), &[line.command()]);
        let (_, newer) =
            engine.decide(Timestamp(self.now), &[Command::background(Action::AdvanceClock)]);
        assert_eq!(engine.apply(&newer), ApplyOutcome::Done);
        let applied = engine.apply(&stale);
        self.print(&format!("{applied:?}"));
    }

    /// Creates memories that no script names, in batches, and one more with the name y.
    fn create_many(&mut self, engine: &mut Engine, line: &Line) {
        let count: u16 = line.words[1].parse().unwrap();
        let id = |number: u16| {
            let mut id = [b'!'; 16];
            id[1..3].copy_from_slice(&number.to_be_bytes());
            MemoryId(id)
        };
        let new = |number| {
            let mut new = new_memory(id(number), "one of many");
            new.initial_heat = line.get("heat").unwrap();
            new
        };
        for first in (0..count).step_by(100) {
            let memories = (first..(first + 100).min(count)).map(new).collect();
            let (_, batch) =
                engine.decide(Timestamp(self.now), &[command(Action::CreateMemories(memories))]);
            assert_eq!(engine.apply(&batch), ApplyOutcome::Done);
        }
        let y = new_memory(MemoryId([b'y'; 16]), "y");
        let (_, batch) =
            engine.decide(Timestamp(self.now), &[command(Action::CreateMemories(vec![y]))]);
        assert_eq!(engine.apply(&batch), ApplyOutcome::Done);
    }

    /// Creates triggers that fire on each stored memory.
    fn create_triggers(&mut self, engine: &mut Engine, count: u32) {
        for first in (0..count).step_by(500) {
            let make = |number: u32| {
                let line = Line::parse("trigger 1 on_store notify");
                let Action::CreateTrigger(_, trigger) = line.command().action else { panic!() };
                let mut id = [b'#'; 16];
                id[1..5].copy_from_slice(&number.to_be_bytes());
                command(Action::CreateTrigger(TriggerId(id), trigger))
            };
            let commands: Vec<_> = (first..first + 500).map(make).collect();
            let (_, batch) = engine.decide(Timestamp(self.now), &commands);
            assert_eq!(engine.apply(&batch), ApplyOutcome::Done);
        }
    }

    /// Prints the evaluation of each trigger, or the number of triggers per evaluation.
    fn evaluate(&mut self, engine: &Engine, line: &Line) {
        let event = TriggerEvent::ALL.into_iter().find(|event| event.name() == line.words[1]);
        let id = MemoryId([line.words[2].as_bytes()[0]; 16]);
        let evaluations = storage::evaluate(&engine.reader, TENANT, event.unwrap(), id).unwrap();
        let Some(evaluations) = evaluations else { return self.print("not found") };
        let (is_summary, mut counts) = (evaluations.len() > LINES_MAX, BTreeMap::new());
        for (_, trigger, evaluation) in evaluations {
            let result = evaluation.err().map_or("would fire", SkipReason::name);
            match is_summary {
                true => *counts.entry(result).or_insert(0) += 1,
                false => self.print(&format!("{}: {result}", trigger.name)),
            }
        }
        counts
            .iter()
            .for_each(|(result, count)| self.print(&format!("{count} triggers: {result}")));
    }

    fn limit(&mut self, engine: &mut Engine, max: u64) {
        use storage::View;
        let mut tenant = engine.reader.tenant(TENANT).unwrap().unwrap();
        tenant.memories_max = Some(max);
        let (_, mut batch) = engine.decide(Timestamp(self.now), &[]);
        batch.changes.push(Change::TenantPut(TENANT, tenant));
        assert_eq!(engine.apply(&batch), ApplyOutcome::Done);
    }

    fn read(&mut self, engine: &Engine, line: &Line) {
        let tier = match line.settings.get("tier").map(String::as_str) {
            Some("cold") => TierFilter::Cold,
            Some("all") => TierFilter::All,
            _ => TierFilter::Hot,
        };
        let filter = Filter { namespace: line.get("namespace"), tier, ..Filter::default() };
        let limit = line.get("limit").unwrap_or(10);
        if line.words[0] == "search" {
            let query = line.words[1].clone();
            let vector = vector(&query).components().unwrap();
            let request = SearchRequest {
                query,
                vector: Some(vector),
                filter,
                home_namespace: line.get("home"),
                limit,
            };
            for hit in engine.reader.search(TENANT, &request).unwrap().hits {
                if let Some(via) = hit.via {
                    let seed = name(via.seed);
                    self.print(&format!(
                        "{} score={} through an edge of {seed}",
                        name(hit.record.id),
                        hit.score
                    ));
                    continue;
                }
                let factors = hit.factors.unwrap();
                self.print(&format!(
                    "{} score={} similarity={:.4} heat={:.4} overlap={:.4} time={:.4} namespace={}",
                    name(hit.record.id),
                    hit.score,
                    factors.similarity,
                    factors.heat,
                    factors.keyword_overlap,
                    factors.temporal_boost,
                    factors.namespace_boost,
                ));
            }
            return;
        }
        let records = if line.words[0] == "hot" {
            let request =
                HotRequest { filter, pinned_first: true, limit, budget_chars: line.get("chars") };
            engine.reader.hottest(TENANT, &request).unwrap()
        } else {
            let words = line
                .get::<String>("words")
                .map(|text| storage::model::words::words(std::iter::once(text.as_str())));
            let filter = Filter { words, ..filter };
            let request = ListRequest { filter, limit, ..ListRequest::default() };
            let page = engine.reader.list(TENANT, &request).unwrap();
            self.print(&format!("total {}", page.total));
            page.memories
        };
        records.iter().for_each(|record| self.print(&memory_text(record)));
    }

    fn print(&mut self, text: &str) {
        writeln!(self.out, "  {text}").unwrap();
    }
}

fn micros(text: &str) -> i64 {
    let (number, unit) = text.split_at(text.len() - 1);
    let hour = 3_600 * Timestamp::SECOND_MICROS;
    number.parse::<i64>().unwrap() * if unit == "d" { 24 * hour } else { hour }
}
