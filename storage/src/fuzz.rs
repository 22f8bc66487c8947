//! Fuzz targets of the engine, behind the feature `fuzzing`. `tests/it/fuzz.rs` and `tests/fuzz`
//! run those of all crates.

use index::data::TenantIndex;
use jiff::tz::TimeZone;
use model::audit::KeyUses;
use model::cluster::{BatchId, Models, Position};
use model::edge::Edge;
use model::guard::GuardMark;
use model::heat::Anchor;
use model::id::{KeyId, MemoryId, TenantId, Timestamp, TriggerId};
use model::journal::{Cursor, DeliveryNext, Event, EventKind, JournalPart};
use model::memory::Origin;
use model::memory::{DecayClass, Memory, MemoryType};
use model::temporal::window;
use model::tombstone::Tombstones;
use model::trigger::{Attempt, AttemptOutcome, Delivery, DeliveryId, DeliveryStage};
use model::trigger::{MESSAGE_BYTES_MAX, TemplateContext};
use model::trigger::{Trigger, TriggerAction, TriggerEvent, TriggerFilter};
use model::vector::{ModelId, Vector};
use model::versions::Versions;
use text::tokenizer::content_words;

use crate::change::{Batch, Change, RowWrite};
use crate::codec::encode;
pub use crate::codec::round_trip;
use crate::command::{Command, CreateMemories, CreateTrigger, RecordAttempts};
use crate::model;
use crate::new_memory::NewMemory;
use crate::records::ROUND_TRIPS;

/// A function of arbitrary bytes that panics if a property does not hold.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name in reports, and for HEARTH_TARGET.
    pub name: &'static str,
    /// Runs it on one input.
    pub run: fn(&[u8]),
    /// Valid inputs. Harnesses derive other inputs from them.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets of this crate.
pub const TARGETS: &[Target] = &[
    Target { name: "records", run: records, seeds: record_seeds },
    Target { name: "templates", run: templates, seeds: template_seeds },
    Target { name: "times", run: times, seeds: time_seeds },
    Target { name: "saved_graphs", run: saved_graphs, seeds: graph_seeds },
];

/// Most bytes of a change besides those of the rows that it writes: its variant, and numbers.
const CHANGE_BYTES_MAX: usize = 16;
const TENANT: TenantId = TenantId(1);
const MEMORY: MemoryId = MemoryId([3; 16]);
const TRIGGER: TriggerId = TriggerId([5; 16]);
const NOW: Timestamp = Timestamp(1_795_282_200_000_000);

/// Every record of `records.rs`, and the rows of the changes of a batch.
pub fn records(bytes: &[u8]) {
    ROUND_TRIPS.iter().for_each(|round_trip| round_trip(bytes));
    if let Some(vector) = round_trip::<Vector>(bytes) {
        let components = vector.components().unwrap_or_default();
        assert!(components.iter().all(|component| component.is_finite()), "{components:?}");
    }
    if let Some(command) = round_trip::<Command>(bytes) {
        command.size_bytes();
    }
    let Some(batch) = round_trip::<Batch>(bytes) else { return };
    let size = |changes| encode(&Batch { changes, ..batch.clone() }).len();
    let empty = size(Vec::new());
    for change in &batch.changes {
        // A draft counts the bytes of rows: those of the log must not be more.
        let rows = change.rows(Cursor::new(1, 0)).iter().map(RowWrite::size_bytes).sum::<usize>();
        assert!(size(vec![change.clone()]) - empty <= rows + CHANGE_BYTES_MAX, "{change:?}");
    }
}

fn record_seeds() -> Vec<Vec<u8>> {
    let (vector, memory) = (vector(), Memory::example("Prefers tea"));
    let anchor = Anchor::fresh(0.5, NOW);
    let edge = Edge {
        source: MEMORY,
        target: MemoryId([4; 16]),
        relation: "related_to".into(),
        weight: 1.0,
        created_at: NOW,
    };
    let event = Event {
        at: NOW,
        actor: Some(KeyId([7; 8])),
        subject: Some(MEMORY),
        namespace: "default".into(),
        kind: EventKind::DeliveryFailed {
            delivery: delivery_id(),
            attempt: 2,
            reason: "timeout".into(),
            next: DeliveryNext::Retry(1),
        },
    };
    let (trigger, delivery) = (trigger(), delivery());
    let rows = [
        encode(&memory),
        encode(&anchor),
        encode(&vector),
        encode(&edge),
        encode(&event),
        encode(&trigger),
        encode(&delivery),
        encode(&Position { index: 300, log_id: vec![1, 2], ..Position::default() }),
        encode(&memory.state()),
        encode(&KeyUses::default()),
        encode(&Models::default()),
        encode(&Versions::default()),
        encode(&Tombstones::default()),
    ];
    let changes = vec![
        Change::MemoryPut(TENANT, MEMORY, memory),
        Change::AnchorPut(TENANT, MEMORY, anchor),
        Change::VectorPut(TENANT, MEMORY, vector),
        Change::EdgePut(TENANT, edge),
        Change::EventAppended(TENANT, event),
        Change::TriggerPut(TENANT, TRIGGER, trigger),
        Change::DeliveryPut(TENANT, delivery_id(), delivery, Some(DeliveryStage::Pending(NOW))),
        Change::EventsTrimmed(TENANT, JournalPart::Others, Cursor::new(300, 2)),
        Change::MemoryRemoved(TENANT, MEMORY),
    ];
    let after = BatchId { term: 1, counter: 9 };
    let batch = Batch { id: BatchId { term: 2, counter: 3 }, after, stamp: NOW, changes };
    rows.into_iter().chain([encode(&batch)]).chain(commands().iter().map(encode)).collect()
}

/// Examples of commands.
pub fn commands() -> Vec<Command> {
    let memory = NewMemory {
        id: MEMORY,
        label: "Prefers tea".into(),
        memory_type: MemoryType::Episodic,
        namespace: "default".into(),
        decay_class: DecayClass::Normal,
        is_pinned: false,
        min_heat: 0.0,
        initial_heat: 1.0,
        key_points: vec!["tea".into()],
        vector: vector(),
        suggestions: Vec::new(),
        supersedes: None,
        on_duplicate: None,
        origin: Origin::default(),
        folds: Vec::new(),
        details: None,
        times: Default::default(),
        external_id: None,
        guard: GuardMark::default(),
        unless_rejected: Vec::new(),
    };
    let failed = AttemptOutcome::Failed { reason: "timeout".into(), retry_in_micros: Some(1) };
    let attempt = Attempt { id: delivery_id(), number: 1, outcome: failed };
    vec![
        Command::of_tenant(TENANT, CreateMemories(vec![memory])),
        Command::of_tenant(TENANT, CreateTrigger { id: TRIGGER, trigger: Box::new(trigger()) }),
        Command::of_tenant(TENANT, RecordAttempts(vec![attempt])),
    ]
}

fn vector() -> Vector {
    let vector = Vector::quantise(ModelId([7; 8]), &[0.6, 0.8, 0.0, 0.0]);
    vector.expect("the components have a direction")
}

fn delivery_id() -> DeliveryId {
    DeliveryId { trigger: TRIGGER, number: 1 }
}

fn delivery() -> Delivery {
    Delivery {
        event: TriggerEvent::Store,
        trigger_name: "hook".into(),
        fired_at: NOW,
        memory: MEMORY,
        namespace: "default".into(),
        label: "Prefers tea".into(),
        memory_type: MemoryType::Episodic,
        heat: 0.5,
        attempts: 1,
        attempts_before: 0,
        reason: String::new(),
        stage: DeliveryStage::Pending(NOW),
    }
}

fn trigger() -> Trigger {
    Trigger {
        number: 1,
        name: "hook".into(),
        description: String::new(),
        event: TriggerEvent::Store,
        action: TriggerAction::Webhook {
            url: "https://hooks.example/1".into(),
            secret: None,
            retiring: None,
        },
        namespace: None,
        filter: TriggerFilter { label_pattern: Some("tea".into()), ..TriggerFilter::default() },
        max_fires: Some(3),
        cooldown_seconds: 60,
        enabled: true,
        owner: Some(KeyId([7; 8])),
        created_at: NOW,
        updated_at: NOW,
    }
}

/// A heat (8 bytes), a template, a zero byte, a label.
pub fn templates(bytes: &[u8]) {
    let Some((heat, texts)) = bytes.split_first_chunk() else { return };
    let texts = String::from_utf8_lossy(texts);
    let (template, label) = texts.split_once('\0').unwrap_or((&texts, ""));
    let memory = Memory::example(label);
    let heat = f64::from_le_bytes(*heat);
    let context = TemplateContext { event: TriggerEvent::Store, id: MEMORY, memory: &memory, heat };
    let message = context.render(Some(template));
    assert!(message.len() <= MESSAGE_BYTES_MAX, "the message has {} bytes", message.len());
}

fn template_seeds() -> Vec<Vec<u8>> {
    let long = "{label}".repeat(600) + "\0" + &"é".repeat(2_000);
    let texts = [
        "{event}: {label} in {namespace} at {heat:.2f} ({heat})\0Prefers tea",
        "{node_id} {memory_type} {heat:.6f}{unknown}{{heat}}",
        &long,
    ];
    texts.map(|text| [&0.5_f64.to_le_bytes(), text.as_bytes()].concat()).into()
}

/// The cluster clock (8 bytes), a query.
pub fn times(bytes: &[u8]) {
    let Some((now, query)) = bytes.split_first_chunk() else { return };
    let (now, query) = (Timestamp(i64::from_le_bytes(*now)), String::from_utf8_lossy(query));
    let Some(window) = window(&query, now, &TimeZone::UTC) else { return };
    assert!(window.start < window.end && query.contains(&window.reference), "{window:?}");
    let words = content_words(&window.reference, usize::MAX);
    assert!(window.words(&query).iter().all(|word| words.contains(word)), "{window:?}");
    for at in [now, Timestamp(i64::MIN), Timestamp(i64::MAX), window.start, window.end] {
        assert!(window.days_outside(at) >= 0.0, "{window:?}");
    }
}

fn time_seeds() -> Vec<Vec<u8>> {
    let queries = [
        "what broke last week in billing",
        "the day before yesterday, 3 days ago",
        "since 2024-02-29",
        "vor drei Tagen, hier soir, hace 2 horas",
        "昨天下午3点, 2024年3月5日",
        "between 3 and 5 November at 3 pm",
        "March 5th 2026 or 5 March",
        "over the last 99 months in 2024",
        "last november; since monday",
    ];
    queries.map(|query| [&NOW.0.to_le_bytes(), query.as_bytes()].concat()).into()
}

/// The content of a saved graph, and the same with a right checksum.
pub fn saved_graphs(bytes: &[u8]) {
    let index = TenantIndex::new(model::tenant::Tenant::default(), 2);
    drop(index::saved::read(bytes, &index));
    let sum = crc32fast::hash(bytes).to_le_bytes();
    drop(index::saved::read(&[bytes, &sum].concat()[..], &index));
}

/// Two points that are linked in the lowest layer.
fn graph_seeds() -> Vec<Vec<u8>> {
    let numbers = |numbers: &[u32]| -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    };
    let point = |id: u8, link: u32| {
        let mut links = vec![u32::MAX; index::points::M0];
        links[0] = link;
        [&[id; 16][..], &[0], &1_f32.to_le_bytes(), &[1, 2], &numbers(&links)].concat()
    };
    vec![[b"hearthG1".to_vec(), numbers(&[2, 2, 0]), point(1, 1), point(2, 0)].concat()]
}
