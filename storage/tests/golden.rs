//! Golden scripts for decide and apply: each file of `golden/` is commands and
//! their full printed effect; its name is the claim. `UPDATE_GOLDEN=1` rewrites
//! what was printed, for a person to read before it is committed.

#![expect(clippy::unwrap_used, reason = "a test says what must hold by unwrapping")]

mod common;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use common::{DIMENSION, Engine, TENANT, command, form, new_memory, vector};
use storage::model::analytics::{Report, TenantReport, Usage};
use storage::model::cluster::Member;
use storage::model::id::{MemoryId, Timestamp};
use storage::model::memory::{DecayClass, MemoryRecord, MemoryType};
use storage::model::receipt::ReceiptRequest;
use storage::model::score::rounded;
use storage::model::thermo::SettingValue;
use storage::model::tick::Stage;
use storage::{
    Action, Applied, Change, Command, Decision, Filter, HotRequest, ListRequest, Matching,
    MemoryPatch, Options, Reply, SearchRequest, Signal, TierFilter,
};

#[test]
fn the_golden_scripts_print_what_they_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut scripts: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    scripts.sort();
    assert!(scripts.len() >= 12, "scripts are missing");
    let mut wrong = Vec::new();
    for path in scripts {
        let expected = std::fs::read_to_string(&path).unwrap();
        let printed = Script::default().run(&expected);
        if printed != expected {
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                std::fs::write(&path, &printed).unwrap();
            }
            wrong.push(format!("{}:\n{printed}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "printed otherwise:\n{}", wrong.join("\n"));
}

#[derive(Default)]
struct Script {
    now: i64,
    out: String,
}

/// The words of a command line; double quotes hold words together.
struct Line {
    words: Vec<String>,
    settings: BTreeMap<String, String>,
}

impl Line {
    fn parse(text: &str) -> Self {
        let (mut words, mut settings) = (Vec::new(), BTreeMap::new());
        let (mut word, mut quoted) = (String::new(), false);
        for c in text.chars().chain([' ']) {
            match c {
                '"' => quoted = !quoted,
                ' ' if !quoted => {
                    if let Some((name, value)) = word.split_once('=') {
                        settings.insert(name.to_owned(), value.to_owned());
                    } else if !word.is_empty() {
                        words.push(word.clone());
                    }
                    word.clear();
                }
                c => word.push(c),
            }
        }
        Self { words, settings }
    }

    fn get<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        let value = self.settings.get(name)?;
        Some(value.parse().unwrap_or_else(|_| panic!("{name}={value}")))
    }

    fn id(&self) -> MemoryId {
        MemoryId([self.words[1].as_bytes()[0]; 16])
    }

    fn admit(&self) -> Action {
        let incarnation = [self.get("life").unwrap(); 16];
        Action::Admit { node: self.get("node").unwrap(), incarnation }
    }

    fn memory_type(&self) -> Option<MemoryType> {
        let name = self.settings.get("type")?;
        Some(MemoryType::ALL.into_iter().find(|kind| kind.name() == name).unwrap())
    }

    fn decay_class(&self) -> Option<DecayClass> {
        let name = self.settings.get("class")?;
        Some(DecayClass::ALL.into_iter().find(|class| class.name() == name).unwrap())
    }

    fn command(&self) -> Command {
        let action = match self.words[0].as_str() {
            "form" => return form(DIMENSION),
            "stamp" => return Command::duty(Action::Stamp),
            "housekeep" => return Command::duty(Action::Housekeep),
            "verify" => return Command::duty(Action::Verify),
            "admit" => return Command::duty(self.admit()),
            "dismiss" => {
                let node = self.get("node").unwrap();
                return Command::duty(Action::Dismiss { node });
            }
            "create" => Action::Create(vec![self.new_memory()]),
            "update" => Action::Update(self.id(), self.patch()),
            "delete" => Action::Delete(self.id()),
            "tick" => Action::Tick,
            "restore" => Action::RestoreEach(self.ids()),
            "delete-each" => {
                let (memory_type, namespace) = (self.memory_type(), self.get("namespace"));
                Action::DeleteEach(self.ids(), Matching { memory_type, namespace })
            }
            "update-each" => Action::UpdateEach(self.ids(), self.patch()),
            "feedback" => Action::Feedback(self.id(), self.signal()),
            "relate" => Action::Relate(self.ids()[0], self.ids()[1], self.words[3].clone()),
            "unrelate" => Action::Unrelate(self.ids()[0], self.ids()[1], self.words[3].clone()),
            "recall" => return Command::duty(Action::Observed(self.report())),
            "configure" => Action::Configure(self.changes()),
            other => panic!("no command {other}"),
        };
        let key = self.settings.get("key");
        let receipt = key.map(|key| ReceiptRequest {
            key: [key.as_bytes()[0]; 32],
            body_hash: [self.settings.get("body").map_or(0, |body| body.as_bytes()[0]); 32],
            status: 201,
        });
        Command { receipt, ..command(action) }
    }

    fn new_memory(&self) -> storage::NewMemory {
        let mut new = new_memory(self.id(), &self.get::<String>("label").unwrap_or_default());
        new.memory_type = self.memory_type().unwrap_or(new.memory_type);
        new.decay_class = self.decay_class().unwrap_or(new.decay_class);
        new.namespace = self.get("namespace").unwrap_or(new.namespace);
        new.is_pinned = self.get("pinned").unwrap_or(new.is_pinned);
        new.min_heat = self.get("min").unwrap_or(new.min_heat);
        new.initial_heat = self.get("heat").unwrap_or(new.initial_heat);
        if self.settings.contains_key("foreign") {
            new.vector = storage::model::vector::Vector::quantise(
                storage::model::vector::ModelId([9; 8]),
                &[1.0; 8],
            )
            .unwrap();
        }
        new
    }

    /// The memories that the words after the first name, one letter each.
    fn ids(&self) -> Vec<MemoryId> {
        let single = self.words[1..].iter().filter(|word| word.len() == 1);
        single.map(|word| MemoryId([word.as_bytes()[0]; 16])).collect()
    }

    fn signal(&self) -> Signal {
        let signals = [Signal::Relevant, Signal::Irrelevant, Signal::Outdated, Signal::Wrong];
        signals.into_iter().find(|signal| signal.name() == self.words[2]).unwrap()
    }

    fn report(&self) -> Report {
        let recalls = self.ids().into_iter().map(|id| (id, self.get("times").unwrap_or(1)));
        let tenant = TenantReport {
            tenant: TENANT,
            recalls: recalls.collect(),
            searches: 1,
            searches_with_results: 1,
            usage: Usage::default(),
            keys: Vec::new(),
        };
        Report { node: 1, boot: 1, number: self.get("report").unwrap(), tenants: vec![tenant] }
    }

    /// Settings by name, with a number or a word for each.
    fn changes(&self) -> Vec<(String, SettingValue)> {
        let value = |text: &String| match text.as_str() {
            "true" => SettingValue::Switch(true),
            "false" => SettingValue::Switch(false),
            "default" => SettingValue::Default,
            number => SettingValue::Number(number.parse().unwrap()),
        };
        self.settings.iter().map(|(name, text)| (name.clone(), value(text))).collect()
    }

    fn patch(&self) -> MemoryPatch {
        MemoryPatch {
            label: self.get::<String>("label").map(|label| (label.clone(), vector(&label))),
            memory_type: self.memory_type(),
            namespace: self.get("namespace"),
            decay_class: self.decay_class(),
            is_pinned: self.get("pinned"),
            is_locked: self.get("locked"),
            is_flagged: self.get("flagged"),
            min_heat: self.get("min"),
            current_heat: self.get("heat"),
        }
    }
}

impl Script {
    /// Runs every `> ` line of a script and returns the script as it came out.
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
            "limit" => self.limit(engine, line.words[1].parse().unwrap()),
            "stale" => self.stale(engine, &Line::parse(text.split_once(' ').unwrap().1)),
            "get" => {
                let found = engine.reader.get(TENANT, line.id()).unwrap();
                self.print(&found.map_or_else(|| "nothing".into(), |found| shown(&found)));
            }
            "list" | "hot" | "search" => self.read(engine, &line),
            _ => self.decide(engine, text),
        }
    }

    /// Commands of one line, `; ` between them, are decided into one batch.
    fn decide(&mut self, engine: &mut Engine, text: &str) {
        self.now += 1;
        let commands: Vec<_> = text.split("; ").map(|part| Line::parse(part).command()).collect();
        let (decisions, batch) = engine.decide(Timestamp(self.now), &commands);
        decisions.iter().for_each(|decision| self.print(&told(decision)));
        batch.changes.iter().for_each(|change| self.print(&format!("+ {}", fact(change))));
        assert_eq!(engine.apply(&batch), Applied::Done);
    }

    /// Decides a command, lets another batch go first, and applies it then.
    fn stale(&mut self, engine: &mut Engine, line: &Line) {
        let (_, late) = engine.decide(Timestamp(self.now), &[line.command()]);
        let (_, first) = engine.decide(Timestamp(self.now), &[Command::duty(Action::Stamp)]);
        assert_eq!(engine.apply(&first), Applied::Done);
        let applied = engine.apply(&late);
        self.print(&format!("{applied:?}"));
    }

    fn limit(&mut self, engine: &mut Engine, max: u64) {
        use storage::View;
        let mut tenant = engine.reader.tenant(TENANT).unwrap().unwrap();
        tenant.memories_max = Some(max);
        let (_, mut batch) = engine.decide(Timestamp(self.now), &[]);
        batch.changes.push(Change::TenantPut(TENANT, tenant));
        assert_eq!(engine.apply(&batch), Applied::Done);
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
                        "{} score={} by an edge of {seed}",
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
        records.iter().for_each(|record| self.print(&shown(record)));
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

fn name(id: MemoryId) -> char {
    char::from(id.0[0])
}

/// The letter of an id, anything else as it stands.
fn short(text: &str) -> String {
    text.parse().map_or_else(|_| text.to_owned(), |id| name(id).to_string())
}

fn time(at: Timestamp) -> String {
    let hour = 3_600 * Timestamp::SECOND_MICROS;
    format!("{}h+{}", at.0 / hour, at.0 % hour)
}

fn shown(record: &MemoryRecord) -> String {
    let memory = &record.memory;
    let mut text = format!(
        "{} {:?} {} in {} heat={} anchor={}@{}",
        name(record.id),
        memory.label,
        memory.memory_type.name(),
        memory.namespace,
        rounded(record.heat),
        record.anchor.heat,
        time(record.anchor.at),
    );
    for (flag, set) in [
        ("pinned", memory.is_pinned),
        ("locked", memory.is_locked),
        ("flagged", memory.is_flagged),
        ("cold", memory.archived_at.is_some()),
    ] {
        if set {
            text += &format!(" {flag}");
        }
    }
    text
}

fn told(decision: &Decision) -> String {
    match decision {
        Ok(Reply::Memories(memories)) => {
            format!("done: {}", memories.iter().map(shown).collect::<Vec<_>>().join(", "))
        }
        Ok(Reply::Deleted(id)) => format!("deleted {}", name(*id)),
        Ok(Reply::Configured(_)) => "configured".into(),
        Ok(Reply::Each(outcomes)) => {
            let one = |outcome: &Result<(), _>| match outcome {
                Ok(()) => "done".to_owned(),
                Err(refusal) => format!("refused: {refusal}"),
            };
            outcomes.iter().map(one).collect::<Vec<_>>().join(", ")
        }
        Ok(Reply::Feedback(feedback)) => format!(
            "heat {:.4} to {:.4}, stability {} to {}",
            feedback.heat_before,
            feedback.heat_after,
            feedback.stability_before,
            feedback.stability_after
        ),
        Ok(Reply::ApiKey(_, key)) => format!("key {} may {}", key.name, key.role.name()),
        Ok(Reply::Rule(rule)) => format!("rule {} for {}", rule.number, rule.namespace),
        Ok(Reply::Related { edge, is_new }) => format!(
            "{} -{}- {}{}",
            name(edge.source),
            edge.relation,
            name(edge.target),
            if *is_new { " is new" } else { "" }
        ),
        Ok(Reply::Replayed { status, memories }) => {
            let one = |(id, record): &(MemoryId, Option<MemoryRecord>)| match record {
                Some(record) => shown(record),
                None => format!("{} is gone", name(*id)),
            };
            format!(
                "replayed {status}: {}",
                memories.iter().map(one).collect::<Vec<_>>().join(", ")
            )
        }
        Ok(Reply::Done) => "done".into(),
        Ok(Reply::Marked(number)) => format!("marked {number}"),
        Ok(Reply::Unfinished) => "done in part".into(),
        Err(refusal) => format!("refused: {refusal}"),
    }
}

fn fact(change: &Change) -> String {
    match change {
        Change::ClusterPut(cluster) => {
            let member = |member: &Member| {
                let removed = if member.removed { " (removed)" } else { "" };
                format!("{}{removed}", member.node)
            };
            let members: Vec<_> = cluster.members.iter().map(member).collect();
            format!("cluster of model {} and nodes {}", cluster.model.name, members.join(", "))
        }
        Change::TenantPut(tenant, row) => format!("tenant {} is {}", tenant.0, row.name),
        Change::ApiKeyPut(tenant, _, key) => format!("key {} of tenant {}", key.name, tenant.0),
        Change::MemoryPut(_, id, memory) => format!(
            "memory {} reads {:?} updated {}",
            name(*id),
            memory.label,
            time(memory.updated_at)
        ),
        Change::AnchorPut(_, id, anchor) => {
            format!("heat of {} is {} as of {}", name(*id), anchor.heat, time(anchor.at))
        }
        Change::VectorPut(_, id, _) => format!("vector of {}", name(*id)),
        Change::MemoryRemoved(_, id) => format!("memory {} is gone", name(*id)),
        Change::ReceiptPut(_, day, key, receipt) => {
            let ids: String = receipt.ids.iter().map(|id| name(*id)).collect();
            format!("receipt {} of day {day}: {} {ids}", char::from(key[0]), receipt.status)
        }
        Change::ReceiptsDropped(_, day) => format!("receipts before day {day} are gone"),
        Change::EventAppended(_, event) => {
            let details = event.details.iter().map(|detail| short(detail));
            let details = details.collect::<Vec<_>>().join(" ");
            let subject = event.subject.map_or('-', name);
            format!("event {:?} {subject} {details}", event.kind).trim_end().into()
        }
        Change::EventsTrimmed(_, before) => {
            format!("events before {}.{} are gone", before.index, before.ordinal)
        }
        Change::ApiKeyRemoved(tenant, _) => format!("a key of tenant {} is gone", tenant.0),
        Change::RulesPut(_, rules) => format!("{} access rules", rules.rules.len()),
        Change::VerifyMark(number) => format!("verify mark {number}"),
        Change::TickPut(_, tick) => format!(
            "tick {} from {} until {}: {}",
            tick.number,
            time(tick.from),
            time(tick.until),
            match tick.stage {
                Stage::Judging(_) => "judging",
                Stage::Archiving(_) => "archiving",
                Stage::Done => "done",
            }
        ),
        Change::RecallStatsPut(_, stats) => {
            let recalls: u64 = stats.types.iter().map(|of_type| of_type.recalls).sum();
            format!("statistics: {recalls} recalls, {} searches", stats.searches)
        }
        Change::UsagePut(_, month, usage) => {
            format!("{} requests in month {month}", usage.requests)
        }
        Change::LastReportPut(node, last) => format!("report {} of node {node} is in", last.number),
        Change::EdgePut(_, edge) => format!(
            "edge {} -{}- {} of weight {}",
            name(edge.source),
            edge.relation,
            name(edge.target),
            edge.weight
        ),
        Change::EdgeRemoved(_, source, target, _) => {
            format!("an edge of {} and {} is gone", name(*source), name(*target))
        }
    }
}
