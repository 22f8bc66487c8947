//! A naive model of the engine: memories in a map, random commands, and the outcome that each
//! command must have.

use std::collections::BTreeMap;

use storage::model::analytics::Usage;
use storage::model::decay::{Decay, heat};
use storage::model::heat::Anchor;
use storage::model::receipt::ReceiptRequest;
use storage::model::times::TimesPatch;

use crate::common::*;

pub const WORDS: [&str; 13] = [
    "red", "blue", "fox", "house", "deploy", "rollback", "coffee", "Paris", "京都", "größe",
    "train", "the", "Ann",
];
const TAGS: [&str; 3] = ["work", "home", "京都"];
pub const NAMESPACES: [&str; 3] = ["default", "atlas", "garden"];

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN_GAMMA);
        mix(self.0)
    }

    /// A number from -1 to 1.
    pub fn component(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }

    /// A text of any form: a few are long, and some have an author or are questions.
    pub fn text(&mut self) -> String {
        let most = if self.chance(3) { 150 } else { 5 };
        let count = 1 + self.below(most);
        let words = (0..count).map(|_| self.pick(&WORDS)).collect::<Vec<_>>().join(" ");
        match self.below(10) {
            0 => format!("Ann Keller: my {words}"),
            1 => format!("{words}?"),
            _ => words,
        }
    }

    pub fn heat(&mut self) -> f32 {
        self.below(101) as f32 / 100.0
    }

    pub fn tags(&mut self) -> Vec<String> {
        let count = self.below(3);
        TAGS.iter().skip(self.below(TAGS.len())).take(count).map(|tag| (*tag).into()).collect()
    }

    pub fn details(&mut self) -> Details {
        let number = ("number".to_owned(), self.below(3).to_string());
        let metadata = if self.chance(50) { vec![number] } else { Vec::new() };
        Details { tags: self.tags(), metadata }
    }
}

/// A memory of the naive model.
#[derive(Clone)]
pub struct NaiveMemory {
    pub memory: Memory,
    pub anchor: Anchor,
    pub text_for_vector: String,
}

/// The naive model of one tenant.
#[derive(Default)]
pub struct World {
    pub memories: BTreeMap<MemoryId, NaiveMemory>,
    /// Body hash and memory of each used idempotency key.
    pub receipts: BTreeMap<u8, (u8, MemoryId)>,
    /// The last number of a memory id or of a report.
    pub next: u64,
    /// The number of memories stored so far, with the deleted ones.
    pub created: u64,
}

impl World {
    pub fn heat(naive: &NaiveMemory, now: Timestamp) -> f64 {
        heat(&naive.anchor, Decay::of(&naive.memory, &Thermo::default()), now)
    }

    /// The id of a memory, or sometimes of none.
    fn id(&self, random: &mut Random) -> MemoryId {
        let ids: Vec<MemoryId> = self.memories.keys().copied().collect();
        if ids.is_empty() || random.chance(5) { MemoryId([0xff; 16]) } else { random.pick(&ids) }
    }

    /// Any command.
    pub fn command(&mut self, random: &mut Random) -> Command {
        if random.below(14) < 10 {
            return self.modelled(random);
        }
        let (id, other) = (self.id(random), self.id(random));
        self.warming(random, id, other)
    }

    /// A command whose effect the model computes.
    pub fn modelled(&mut self, random: &mut Random) -> Command {
        let id = self.id(random);
        match random.below(10) {
            0..=4 => {
                self.next += 1;
                // Ids come from several nodes, so they are not in order.
                let number = u128::from(random.next()) << 64 | u128::from(self.next);
                let mut new = new_memory(memory_id(number), &random.text());
                new.memory_type = random.pick(&MemoryType::ALL);
                new.decay_class = random.pick(&DecayClass::ALL);
                new.namespace = random.pick(&NAMESPACES).into();
                new.is_pinned = random.chance(20);
                new.min_heat = if random.chance(20) { random.heat() } else { 0.0 };
                new.initial_heat = random.heat();
                new.key_points = if random.chance(30) { vec![random.text()] } else { Vec::new() };
                new.details = random.chance(30).then(|| random.details().some()).flatten();
                let receipt = random.chance(30).then(|| ReceiptRequest {
                    key: [random.below(6) as u8; 32],
                    body_hash: [random.below(2) as u8; 32],
                });
                Command { receipt, ..create(new) }
            }
            5..=7 => {
                let label = random.chance(30).then(|| random.text());
                let patch = MemoryPatch {
                    similar: Vec::new(),
                    label: label.map(|label| (label.clone(), vector(&label))),
                    memory_type: random.chance(20).then(|| random.pick(&MemoryType::ALL)),
                    namespace: random.chance(20).then(|| random.pick(&NAMESPACES).into()),
                    decay_class: random.chance(20).then(|| random.pick(&DecayClass::ALL)),
                    is_pinned: random.chance(20).then(|| random.chance(50)),
                    is_locked: random.chance(20).then(|| random.chance(50)),
                    is_flagged: random.chance(10).then(|| random.chance(50)),
                    min_heat: random.chance(10).then(|| random.heat()),
                    current_heat: random.chance(20).then(|| random.heat()),
                    details: DetailsPatch {
                        tags: random.chance(20).then(|| random.tags()),
                        ..DetailsPatch::default()
                    },
                    times: TimesPatch::default(),
                    ..MemoryPatch::default()
                };
                command(UpdateMemory { id, patch: patch.into() })
            }
            _ => command(DeleteMemory { id, rejects: None }),
        }
    }

    /// A command whose effect the model copies from the engine: see [`World::copy_from`].
    pub fn warming(&mut self, random: &mut Random, id: MemoryId, other: MemoryId) -> Command {
        match random.below(5) {
            0 => command(AdvanceTick(None)),
            1 => command(GiveFeedback { id, signal: random.pick(&Signal::ALL) }),
            2 if other != id => command(CreateEdge(EdgeRef {
                source: id,
                target: other,
                relation: random.pick(&["uses", "needs"]).into(),
            })),
            3 => command(RestoreMemories(vec![id, other])),
            _ => {
                self.next += 1;
                let usage = Usage { requests: 3, ..Usage::default() };
                report(self.next, 2, usage, vec![(id, 1), (other, 2)])
            }
        }
    }

    /// Copies every memory from the engine, after commands that the model does not compute.
    /// The golden scripts check their effects. Here all replicas must be equal.
    pub fn copy_from(&mut self, engine: &Engine) {
        for (id, naive) in &mut self.memories {
            let found = engine.reader.get(TENANT, *id).unwrap().expect("it is in the model");
            (naive.memory, naive.anchor) = (found.memory, found.anchor);
        }
    }

    /// The outcome that a command must have. Applies its effect to the model.
    pub fn expect(&mut self, command: &Command, now: Timestamp) -> &'static str {
        if let Some(receipt) = &command.receipt
            && let Some((body, _)) = self.receipts.get(&receipt.key[0])
        {
            return if *body == receipt.body_hash[0] { "replayed" } else { "key reused" };
        }
        let is_absent = |id| !self.memories.contains_key(id);
        let Action::Tenant(_, action) = &command.action else { return "done" };
        match action {
            TenantAction::UpdateMemory(UpdateMemory { id, .. })
            | TenantAction::DeleteMemory(DeleteMemory { id, .. })
            | TenantAction::GiveFeedback(GiveFeedback { id, .. })
                if is_absent(id) =>
            {
                "not found"
            }
            TenantAction::CreateEdge(CreateEdge(edge))
                if is_absent(&edge.source) || is_absent(&edge.target) =>
            {
                "not found"
            }
            TenantAction::CreateMemories(CreateMemories(new)) => {
                let new = &new[0];
                let anchor = Anchor::fresh(new.initial_heat, now);
                let text_for_vector = new.label.clone();
                let naive = NaiveMemory { memory: new.memory(now), anchor, text_for_vector };
                self.memories.insert(new.id, naive);
                self.created += 1;
                if let Some(receipt) = &command.receipt {
                    self.receipts.insert(receipt.key[0], (receipt.body_hash[0], new.id));
                }
                "done"
            }
            TenantAction::UpdateMemory(UpdateMemory { id, patch }) => {
                update(self.memories.get_mut(id).unwrap(), patch, now);
                "done"
            }
            TenantAction::DeleteMemory(DeleteMemory { id, .. }) => {
                if self.memories[id].memory.is_locked {
                    return "locked";
                }
                self.memories.remove(id);
                "deleted"
            }
            _ => "done",
        }
    }
}

fn update(naive: &mut NaiveMemory, patch: &MemoryPatch, now: Timestamp) {
    let (before, present_heat) = (naive.memory.clone(), World::heat(naive, now));
    let memory = &mut naive.memory;
    if let Some((label, _)) = &patch.label {
        memory.label.clone_from(label);
        naive.text_for_vector.clone_from(label);
    }
    memory.memory_type = patch.memory_type.unwrap_or(memory.memory_type);
    memory.namespace = patch.namespace.clone().unwrap_or_else(|| memory.namespace.clone());
    memory.decay_class = patch.decay_class.unwrap_or(memory.decay_class);
    memory.is_pinned = patch.is_pinned.unwrap_or(memory.is_pinned);
    memory.is_locked = patch.is_locked.unwrap_or(memory.is_locked);
    memory.is_flagged = patch.is_flagged.unwrap_or(memory.is_flagged);
    memory.min_heat = patch.min_heat.unwrap_or(memory.min_heat);
    if patch.current_heat.is_some() || patch.is_pinned == Some(true) {
        memory.archived_at = None;
    }
    if let Some(tags) = &patch.details.tags {
        let before = memory.details.clone().unwrap_or_default();
        memory.details = Details { tags: tags.clone(), ..*before }.some();
    }
    if *memory == before && patch.current_heat.is_none() {
        return;
    }
    memory.updated_at = now;
    let cooling = |memory: &Memory| {
        let class = (memory.memory_type, memory.decay_class);
        (class, memory.is_pinned, memory.min_heat.to_bits(), memory.archived_at)
    };
    if let Some(heat) = patch.current_heat {
        naive.anchor = Anchor { heat, at: now, ..naive.anchor };
    } else if cooling(memory) != cooling(&before) {
        naive.anchor = Anchor { heat: present_heat as f32, at: now, ..naive.anchor };
    }
}
