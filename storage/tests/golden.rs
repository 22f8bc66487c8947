//! Golden scripts for decide and apply. Each file of `golden/` lists commands and their full
//! printed effect. Its name is the claim. `UPDATE_GOLDEN=1` rewrites the printed lines; review
//! them before a commit.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use storage::model::tenant::Limit;
use storage::model::trigger_match::SkipReason;
use storage::text::tokenizer::words;

use crate::common::line::{Line, by_name};
use crate::common::print::{change_text, factors_text, memory_text, name, outcome};
use crate::common::*;

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
        let mut engine = Engine::empty(Options::default());
        for line in script.lines().filter(|line| line.starts_with(['#', '>'])) {
            writeln!(self.out, "{line}").unwrap();
            match line.strip_prefix("> ") {
                Some("restart") => engine = engine.reopened(Options::default()),
                Some(text) => self.line(&mut engine, text),
                None => {}
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
        let (decisions, batch) = engine.accepted(self.now, &commands);
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
        let (_, stale) = engine.decide(self.now, &[line.command()]);
        engine.run(self.now, &[Command::of_cluster(AdvanceClock)]);
        let applied = engine.apply(&stale);
        self.print(&format!("{applied:?}"));
    }

    /// Creates memories that no script names, in batches, and one more with the name y.
    fn create_many(&mut self, engine: &mut Engine, line: &Line) {
        let initial_heat = line.get("heat").unwrap();
        let ids = (0..line.words[1].parse::<u64>().unwrap()).map(|number| {
            let mut id = [b'!'; 16];
            id[8..].copy_from_slice(&number.to_be_bytes());
            MemoryId(id)
        });
        for id in ids {
            let new = NewMemory { initial_heat, ..new_memory(id, "one of many") };
            engine.run(self.now, &[create(new)]);
        }
        engine.run(self.now, &[create(new_memory(MemoryId([b'y'; 16]), "y"))]);
    }

    /// Creates triggers that fire on each stored memory.
    fn create_triggers(&mut self, engine: &mut Engine, count: u32) {
        let notify = trigger(TriggerEvent::Store, TriggerAction::Notify(None));
        let make = |number: u32| {
            let mut id = [b'#'; 16];
            id[1..5].copy_from_slice(&number.to_be_bytes());
            create_trigger(TriggerId(id), Trigger { name: "trigger 1".into(), ..notify.clone() })
        };
        engine.run(self.now, &(0..count).map(make).collect::<Vec<_>>());
    }

    /// Prints the evaluation of each trigger, or the number of triggers per evaluation.
    fn evaluate(&mut self, engine: &Engine, line: &Line) {
        let event = by_name(&TriggerEvent::NAMED, &line.words[1]);
        let id = MemoryId([line.words[2].as_bytes()[0]; 16]);
        let evaluations = storage::evaluate(&engine.reader, TENANT, event, id).unwrap();
        let Some(evaluations) = evaluations else { return self.print("not found") };
        let (is_summary, mut counts) = (evaluations.len() > LINES_MAX, BTreeMap::new());
        for (_, trigger, evaluation) in evaluations {
            let result = evaluation.err().map_or("would fire", SkipReason::name);
            match is_summary {
                true => *counts.entry(result).or_insert(0) += 1,
                false => self.print(&format!("{}: {result}", trigger.name)),
            }
        }
        for (result, count) in counts {
            self.print(&format!("{count} triggers: {result}"));
        }
    }

    fn limit(&mut self, engine: &mut Engine, max: u64) {
        let mut tenant = engine.reader.tenant(TENANT).unwrap().unwrap();
        tenant.limits.insert(Limit::Memories, Some(max));
        let (_, mut batch) = engine.decide(self.now, &[]);
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
            let (query, home_namespace) = (line.words[1].clone(), line.get("home"));
            let vector = Some(vector(&query).components().unwrap());
            let request = SearchRequest {
                query,
                vector,
                filter,
                home_namespace,
                limit,
                ..SearchRequest::default()
            };
            for hit in engine.reader.search(TENANT, &request).unwrap().hits {
                let found = format!("{} score={}", name(hit.record.id), hit.score);
                self.print(&match (hit.via, hit.factors) {
                    (Some(via), _) => format!("{found} through an edge of {}", name(via.seed)),
                    (None, factors) => format!("{found} {}", factors_text(&factors.unwrap())),
                });
            }
            return;
        }
        let records = if line.words[0] == "hot" {
            let request =
                HotRequest { filter, pinned_first: true, limit, budget_chars: line.get("chars") };
            engine.reader.hottest(TENANT, &request).unwrap()
        } else {
            let texts = line.settings.get("words");
            let words = texts.map(|text| words(std::iter::once(text.as_str())));
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
