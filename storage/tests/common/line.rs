//! Parses a line of a golden script into a command.

use std::collections::BTreeMap;

use storage::model::analytics::{ReturnedMemory, Usage};
use storage::model::duplicate::OnDuplicate;
use storage::model::edge::{SIMILAR_TO, Suggestion};
use storage::model::id::KeyId;
use storage::model::receipt::ReceiptRequest;
use storage::model::tenant::Role;
use storage::model::times::TimesPatch;

use crate::common::*;

/// The value of an enum that has a name.
pub fn by_name<T: Copy>(named: &[(&str, T)], text: &str) -> T {
    named.iter().find(|(name, _)| *name == text).unwrap_or_else(|| panic!("no {text}")).1
}

/// The words and the settings `name=value` of a line. Double quotes enclose spaces.
pub struct Line {
    pub words: Vec<String>,
    pub settings: BTreeMap<String, String>,
}

impl Line {
    pub fn parse(text: &str) -> Self {
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

    pub fn get<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        let value = self.settings.get(name)?;
        Some(value.parse().unwrap_or_else(|_| panic!("{name}={value}")))
    }

    pub fn id(&self) -> MemoryId {
        MemoryId([self.words[1].as_bytes()[0]; 16])
    }

    fn memory_type(&self) -> Option<MemoryType> {
        Some(by_name(&MemoryType::NAMED, self.settings.get("type")?))
    }

    fn on_duplicate(&self, name: &str) -> Option<OnDuplicate> {
        Some(by_name(&OnDuplicate::NAMED, self.settings.get(name)?))
    }

    fn decay_class(&self) -> Option<DecayClass> {
        Some(by_name(&DecayClass::NAMED, self.settings.get("class")?))
    }

    pub fn command(&self) -> Command {
        let action: TenantAction = match self.words[0].as_str() {
            "bootstrap" => return bootstrap(DIMENSION),
            "recall" => return self.report(),
            "advance-clock" => return Command::of_cluster(AdvanceClock),
            "expire" => return Command::of_cluster(Expire(TenantId(0))),
            "verify" => return Command::of_cluster(Verify),
            "add-member" | "remove-member" => return Command::of_cluster(self.membership()),
            "create" => CreateMemories(vec![self.new_memory()]).into(),
            "update" => UpdateMemory { id: self.id(), patch: self.patch().into() }.into(),
            "delete" => DeleteMemory { id: self.id(), rejects: None }.into(),
            "tick" => AdvanceTick(None).into(),
            "restore" => RestoreMemories(self.ids()).into(),
            "delete-each" => {
                let (memory_type, namespace) = (self.memory_type(), self.get("namespace"));
                DeleteMemories {
                    ids: self.ids(),
                    filter: BulkFilter { memory_type, namespace },
                    rejects: Vec::new(),
                }
                .into()
            }
            "update-each" => UpdateMemories { ids: self.ids(), patches: vec![self.patch()] }.into(),
            "feedback" => {
                GiveFeedback { id: self.id(), signal: by_name(&Signal::NAMED, &self.words[2]) }
                    .into()
            }
            "relate" => CreateEdge(self.edge()).into(),
            "supersede" => Supersede { old: self.ids()[0], by: self.ids()[1] }.into(),
            "unrelate" => DeleteEdge(self.edge()).into(),
            "configure" => UpdateSettings(self.changes()).into(),
            "trigger" => {
                CreateTrigger { id: self.trigger_id(), trigger: Box::new(self.trigger()) }.into()
            }
            // Each memory has a label of 36 kB.
            "create-large" => CreateMemories(self.large(self.words[1].parse().unwrap())).into(),
            "trigger-update" => {
                UpdateTrigger { id: self.trigger_id(), patch: Box::new(self.trigger_patch()) }
                    .into()
            }
            "trigger-delete" => DeleteTrigger(self.trigger_id()).into(),
            "attempt" => RecordAttempts(vec![self.attempt()]).into(),
            "replay" if self.words.len() > 1 => ReplayDelivery(self.delivery_id()).into(),
            "replay" => ReplayDeliveries(None).into(),
            "key" => {
                CreateKey { id: key_id(&self.words[1]), key: api_key(&self.words[1], Role::Agent) }
                    .into()
            }
            "key-delete" => DeleteKey(key_id(&self.words[1])).into(),
            other => panic!("no command {other}"),
        };
        let key = self.settings.get("key");
        let receipt = key.map(|key| ReceiptRequest {
            key: [key.as_bytes()[0]; 32],
            body_hash: [self.settings.get("body").map_or(0, |body| body.as_bytes()[0]); 32],
        });
        // Of a trigger, the actor is the owner.
        let actor = self.settings.get("owner").map(|owner| key_id(owner));
        Command { receipt, actor, ..command(action) }
    }

    fn membership(&self) -> ClusterAction {
        let node = self.get("node").unwrap();
        match self.get("incarnation") {
            Some(incarnation) => AddMember { node, incarnation: [incarnation; 16] }.into(),
            None => RemoveMember(node).into(),
        }
    }

    fn new_memory(&self) -> NewMemory {
        let new = new_memory(self.id(), &self.get::<String>("label").unwrap_or_default());
        let foreign = |_| Vector::quantise(ModelId([9; 8]), &[1.0; 8]).unwrap();
        NewMemory {
            memory_type: self.memory_type().unwrap_or(new.memory_type),
            decay_class: self.decay_class().unwrap_or(new.decay_class),
            namespace: self.get("namespace").unwrap_or(new.namespace),
            is_pinned: self.get("pinned").unwrap_or(new.is_pinned),
            min_heat: self.get("min").unwrap_or(new.min_heat),
            initial_heat: self.get("heat").unwrap_or(new.initial_heat),
            vector: self.settings.get("foreign").map_or(new.vector, foreign),
            supersedes: self
                .get::<String>("supersedes")
                .map(|name| MemoryId([name.as_bytes()[0]; 16])),
            suggestions: self.similar(),
            on_duplicate: self.on_duplicate("on_duplicate"),
            ..new
        }
    }

    /// A memory that the receiving node has found to have the same vector.
    fn similar(&self) -> Vec<Suggestion> {
        let other = self.get::<String>("similar").map(|name| MemoryId([name.as_bytes()[0]; 16]));
        let suggestion = |other| Suggestion { other, relation: SIMILAR_TO.into(), weight: 1.0 };
        other.map(suggestion).into_iter().collect()
    }

    fn large(&self, count: u8) -> Vec<NewMemory> {
        let label = "words ".repeat(6_000);
        (0..count).map(|number| new_memory(MemoryId([b'0' + number; 16]), &label)).collect()
    }

    fn trigger_id(&self) -> TriggerId {
        TriggerId([self.words[1].as_bytes()[0]; 16])
    }

    fn trigger(&self) -> Trigger {
        let event = by_name(&TriggerEvent::NAMED, &self.words[2]);
        Trigger {
            name: self.get("name").unwrap_or_else(|| format!("trigger {}", self.words[1])),
            namespace: self.get("namespace"),
            filter: TriggerFilter {
                memory_type: self.memory_type(),
                namespace: self.get("in"),
                label_pattern: self.get("label"),
                heat_below: self.get("below"),
                heat_above: self.get("above"),
            },
            max_fires: self.get("max"),
            cooldown_seconds: self.get("cooldown").unwrap_or(0),
            enabled: self.get("enabled").unwrap_or(true),
            ..trigger(event, self.action(&self.words[3]))
        }
    }

    fn action(&self, name: &str) -> TriggerAction {
        match name {
            "notify" => TriggerAction::Notify(self.get("template")),
            "boost" => TriggerAction::Boost(self.get("strength").unwrap_or(0.3)),
            "pin" => TriggerAction::Pin,
            "tag" => TriggerAction::Tag(self.get("tag")),
            "deprecate" => TriggerAction::Deprecate,
            "webhook" => {
                let secret = self.get::<String>("secret");
                let secret = secret.map(|secret| SealedSecret(secret.into_bytes()));
                let url = self.get("url").unwrap_or_else(|| "https://hooks.example/1".into());
                TriggerAction::Webhook { url, secret, retiring: None }
            }
            other => panic!("no action {other}"),
        }
    }

    fn trigger_patch(&self) -> TriggerPatch {
        TriggerPatch {
            name: self.get("name"),
            action: self.words.get(2).map(|name| self.action(name)),
            keep_url: self.words.len() > 2 && !self.settings.contains_key("url"),
            drop_secret: self.get("unsigned").unwrap_or(false),
            enabled: self.get("enabled"),
            max_fires: self.get("max").map(Some),
            cooldown_seconds: self.get("cooldown"),
            label_pattern: self.get("label").map(Some),
            reset_count: self.get("reset").unwrap_or(false),
            ..TriggerPatch::default()
        }
    }

    fn delivery_id(&self) -> DeliveryId {
        DeliveryId { trigger: self.trigger_id(), number: self.words[2].parse().unwrap() }
    }

    fn attempt(&self) -> Attempt {
        let seconds = |seconds: i64| seconds * Timestamp::SECOND_MICROS;
        let outcome = match self.words[4].as_str() {
            "delivered" => AttemptOutcome::Delivered(204),
            "gone" => AttemptOutcome::Gone(Timestamp(self.get("changed").unwrap())),
            "disabled" => AttemptOutcome::Disabled,
            reason => AttemptOutcome::Failed {
                reason: reason.to_owned(),
                retry_in_micros: self.get("retry").map(seconds),
            },
        };
        Attempt { id: self.delivery_id(), number: self.words[3].parse().unwrap(), outcome }
    }

    /// The memories that one-letter words name.
    fn ids(&self) -> Vec<MemoryId> {
        let single = self.words[1..].iter().filter(|word| word.len() == 1);
        single.map(|word| MemoryId([word.as_bytes()[0]; 16])).collect()
    }

    fn edge(&self) -> EdgeRef {
        let ids = self.ids();
        EdgeRef { source: ids[0], target: ids[1], relation: self.words[3].clone() }
    }

    fn report(&self) -> Command {
        let times = self.get("times").unwrap_or(1);
        let recalls = self.get("recalls").unwrap_or(times);
        let all = |times: u32| -> Vec<_> { self.ids().into_iter().map(|id| (id, times)).collect() };
        let recalls = if recalls > 0 { all(recalls) } else { Vec::new() };
        let owner = self.settings.get("owner").map(|owner| key_id(owner));
        let of_owner = |(id, times)| ReturnedMemory { owner, id, times };
        let returned = all(times).into_iter().map(of_owner).collect();
        report_returned(self.get("report").unwrap(), 1, Usage::default(), recalls, returned)
    }

    /// Settings by name, each with a number, a switch or `default`.
    fn changes(&self) -> Vec<(String, SettingValue)> {
        let value = |text: &String| match text.as_str() {
            "true" => SettingValue::Switch(true),
            "false" => SettingValue::Switch(false),
            "default" => SettingValue::Default,
            "allow" | "merge" | "reject" => {
                SettingValue::OnDuplicate(by_name(&OnDuplicate::NAMED, text))
            }
            number => SettingValue::Number(number.parse().unwrap()),
        };
        self.settings.iter().map(|(name, text)| (name.clone(), value(text))).collect()
    }

    fn patch(&self) -> MemoryPatch {
        MemoryPatch {
            similar: Vec::new(),
            label: self.get::<String>("label").map(|label| (label.clone(), vector(&label))),
            memory_type: self.memory_type(),
            namespace: self.get("namespace"),
            decay_class: self.decay_class(),
            is_pinned: self.get("pinned"),
            is_locked: self.get("locked"),
            is_flagged: self.get("flagged"),
            min_heat: self.get("min"),
            current_heat: self.get("heat"),
            details: DetailsPatch::default(),
            times: TimesPatch::default(),
            ..MemoryPatch::default()
        }
    }
}

fn key_id(name: &str) -> KeyId {
    KeyId([name.as_bytes()[0]; 8])
}
