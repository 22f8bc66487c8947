//! All keys of `state/` and their encoding. Each value is a [`crate::codec::Record`].
//!
//! A key is the byte of its kind, then its parts. Integers are big-endian, so byte order is
//! the order of kind, tenant, id. A kind's byte is never reused for another kind.
//!
//! | byte | kind | parts and their bytes |
//! |---|---|---|
//! | 0x01 | position | |
//! | 0x02 | cluster | |
//! | 0x10 | tenant | tenant 4 |
//! | 0x11 | API key | tenant 4, key id 8 |
//! | 0x12 | tick | tenant 4 |
//! | 0x13 | recall statistics | tenant 4 |
//! | 0x14 | usage | tenant 4, month 4 |
//! | 0x15 | last report | node 8 |
//! | 0x16 | access rules | tenant 4 |
//! | 0x20 | memory | tenant 4, memory id 16 |
//! | 0x21 | anchor | tenant 4, memory id 16 |
//! | 0x22 | vector | tenant 4, memory id 16 |
//! | 0x23 | edge, stored at both ends | tenant 4, memory id 16, other 16, relation 8 |
//! | 0x30 | receipt | tenant 4, day 4, key hash 32 |
//! | 0x40 | event | tenant 4, group 4, log index 8, ordinal 4 |
//! | 0x41 | reserved: audit | |
//! | 0x42 | first retained event | tenant 4 |
//! | 0x43 | index entry of a trigger event | tenant 4, group 4, log index 8, ordinal 4 |
//! | 0x50 | trigger | tenant 4, trigger id 16 |
//! | 0x51 | firings | tenant 4, trigger id 16 |
//! | 0x52 | outbox | tenant 4 |
//! | 0x53 | delivery | tenant 4, trigger id 16, number 8 |
//! | 0x54 | index entry of a pending delivery | tenant 4, time 8, trigger id 16, number 8 |
//! | 0x55 | index entry of a dead letter | tenant 4, time 8, trigger id 16, number 8 |

use crate::error::{Error, Result};
use crate::model::cluster::GroupId;
use crate::model::delivery::DeliveryId;
use crate::model::edge::RelationKey;
use crate::model::id::{MemoryId, TenantId, Timestamp, TriggerId};
use crate::model::journal::Cursor;
use crate::model::receipt::ReceiptKey;
use crate::model::tenant::KeyId;

/// First byte of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// Position in the log up to which this state is applied.
    Position = 0x01,
    /// Identity and members of the cluster.
    Cluster = 0x02,
    /// A tenant.
    Tenant = 0x10,
    /// An API key.
    ApiKey = 0x11,
    /// A tenant's last decay tick.
    Tick = 0x12,
    /// Recall statistics of a tenant.
    RecallStats = 0x13,
    /// Usage of a tenant in one month.
    Usage = 0x14,
    /// The last report of a node.
    LastReport = 0x15,
    /// A tenant's access rules.
    Rules = 0x16,
    /// A memory's text row.
    Memory = 0x20,
    /// A memory's anchor.
    Anchor = 0x21,
    /// A memory's vector.
    Vector = 0x22,
    /// An edge. Stored twice, once at each end.
    Edge = 0x23,
    /// Receipt of an idempotent request.
    Receipt = 0x30,
    /// A journal event.
    Event = 0x40,
    /// Cursor of a tenant's first retained event, once events were trimmed.
    FirstEvent = 0x42,
    /// Index of the events of triggers. No value.
    TriggerEvent = 0x43,
    /// A trigger.
    Trigger = 0x50,
    /// Firing counts of a trigger.
    Firings = 0x51,
    /// Delivery counts of a tenant.
    Outbox = 0x52,
    /// A delivery, pending or dead-lettered.
    Delivery = 0x53,
    /// Index of pending deliveries by due time. No value.
    Due = 0x54,
    /// Index of dead letters by the time of the last attempt. No value.
    DeadLetter = 0x55,
}

/// A key of `state/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// See `Kind::Position`.
    Position,
    /// See `Kind::Cluster`.
    Cluster,
    /// See `Kind::Tenant`.
    Tenant(TenantId),
    /// See `Kind::ApiKey`.
    ApiKey(TenantId, KeyId),
    /// See `Kind::Tick`.
    Tick(TenantId),
    /// See `Kind::RecallStats`.
    RecallStats(TenantId),
    /// See `Kind::Usage`. The number is the month: year · 12 + month − 1.
    Usage(TenantId, u32),
    /// See `Kind::LastReport`.
    LastReport(u64),
    /// See `Kind::Rules`.
    Rules(TenantId),
    /// See `Kind::Memory`.
    Memory(TenantId, MemoryId),
    /// See `Kind::Anchor`.
    Anchor(TenantId, MemoryId),
    /// See `Kind::Vector`.
    Vector(TenantId, MemoryId),
    /// See `Kind::Edge`: this end, the other end, the relation.
    Edge(TenantId, MemoryId, MemoryId, RelationKey),
    /// See `Kind::Receipt`. The number is the day of the receipt.
    Receipt(TenantId, u32, ReceiptKey),
    /// See `Kind::Event`.
    Event(TenantId, Cursor),
    /// See `Kind::FirstEvent`.
    FirstEvent(TenantId),
    /// See `Kind::TriggerEvent`.
    TriggerEvent(TenantId, Cursor),
    /// See `Kind::Trigger`.
    Trigger(TenantId, TriggerId),
    /// See `Kind::Firings`.
    Firings(TenantId, TriggerId),
    /// See `Kind::Outbox`.
    Outbox(TenantId),
    /// See `Kind::Delivery`.
    Delivery(TenantId, DeliveryId),
    /// See `Kind::Due`.
    Due(TenantId, Timestamp, DeliveryId),
    /// See `Kind::DeadLetter`.
    DeadLetter(TenantId, Timestamp, DeliveryId),
}

impl Key {
    /// The encoded key.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Position => vec![Kind::Position as u8],
            Self::Cluster => vec![Kind::Cluster as u8],
            Self::Tenant(tenant) => prefix(Kind::Tenant, *tenant),
            Self::ApiKey(tenant, key) => [&prefix(Kind::ApiKey, *tenant)[..], &key.0].concat(),
            Self::Tick(tenant) => prefix(Kind::Tick, *tenant),
            Self::RecallStats(tenant) => prefix(Kind::RecallStats, *tenant),
            Self::Usage(tenant, month) => {
                [&prefix(Kind::Usage, *tenant)[..], &month.to_be_bytes()].concat()
            }
            Self::LastReport(node) => [&[Kind::LastReport as u8][..], &node.to_be_bytes()].concat(),
            Self::Rules(tenant) => prefix(Kind::Rules, *tenant),
            Self::Memory(tenant, id) => [&prefix(Kind::Memory, *tenant)[..], &id.0].concat(),
            Self::Anchor(tenant, id) => [&prefix(Kind::Anchor, *tenant)[..], &id.0].concat(),
            Self::Vector(tenant, id) => [&prefix(Kind::Vector, *tenant)[..], &id.0].concat(),
            Self::Edge(tenant, end, other, relation) => {
                [&edges_of(*tenant, *end)[..], &other.0, relation].concat()
            }
            Self::Receipt(tenant, day, key) => {
                [&prefix(Kind::Receipt, *tenant)[..], &day.to_be_bytes(), key].concat()
            }
            Self::Event(tenant, cursor) => {
                [&prefix(Kind::Event, *tenant)[..], &cursor_bytes(cursor)].concat()
            }
            Self::TriggerEvent(tenant, cursor) => {
                [&prefix(Kind::TriggerEvent, *tenant)[..], &cursor_bytes(cursor)].concat()
            }
            Self::FirstEvent(tenant) => prefix(Kind::FirstEvent, *tenant),
            Self::Trigger(tenant, id) => [&prefix(Kind::Trigger, *tenant)[..], &id.0].concat(),
            Self::Firings(tenant, id) => [&prefix(Kind::Firings, *tenant)[..], &id.0].concat(),
            Self::Outbox(tenant) => prefix(Kind::Outbox, *tenant),
            Self::Delivery(tenant, id) => {
                [&prefix(Kind::Delivery, *tenant)[..], &delivery_bytes(id)].concat()
            }
            Self::Due(tenant, at, id) => {
                [&prefix(Kind::Due, *tenant)[..], &timestamp_bytes(*at), &delivery_bytes(id)]
                    .concat()
            }
            Self::DeadLetter(tenant, at, id) => {
                [&prefix(Kind::DeadLetter, *tenant)[..], &timestamp_bytes(*at), &delivery_bytes(id)]
                    .concat()
            }
        }
    }
}

/// Cluster timestamps are never negative, so the bytes sort like the timestamps.
fn timestamp_bytes(at: Timestamp) -> [u8; 8] {
    at.0.to_be_bytes()
}

fn cursor_bytes(cursor: &Cursor) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&cursor.group.0.to_be_bytes());
    bytes[4..12].copy_from_slice(&cursor.index.to_be_bytes());
    bytes[12..].copy_from_slice(&cursor.ordinal.to_be_bytes());
    bytes
}

/// Decodes the cursor from the part of an event key after the tenant.
///
/// # Errors
/// [`Error::Corrupt`] when the length differs.
pub fn cursor_of(part: &[u8]) -> Result<Cursor> {
    let bytes: [u8; 16] = fixed(part)?;
    Ok(Cursor {
        group: GroupId(u32::from_be_bytes(fixed(&bytes[..4])?)),
        index: u64::from_be_bytes(fixed(&bytes[4..12])?),
        ordinal: u32::from_be_bytes(fixed(&bytes[12..])?),
    })
}

fn delivery_bytes(id: &DeliveryId) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[..16].copy_from_slice(&id.trigger.0);
    bytes[16..].copy_from_slice(&id.number.to_be_bytes());
    bytes
}

/// Decodes the delivery id from the last 24 bytes of a key.
///
/// # Errors
/// [`Error::Corrupt`] when there are fewer.
pub fn delivery_of(key: &[u8]) -> Result<DeliveryId> {
    let bytes = key.last_chunk::<24>().ok_or_else(|| malformed(key))?;
    let (trigger, number) = bytes.split_at(16);
    Ok(DeliveryId {
        trigger: TriggerId(fixed(trigger)?),
        number: u64::from_be_bytes(fixed(number)?),
    })
}

/// Decodes due time and delivery id from a key of [`Kind::Due`].
///
/// # Errors
/// [`Error::Corrupt`] when bytes are missing.
pub fn due_of(key: &[u8]) -> Result<(Timestamp, DeliveryId)> {
    let (_, rest) = split(key)?;
    let at = rest.first_chunk().ok_or_else(|| malformed(key))?;
    Ok((Timestamp(i64::from_be_bytes(*at)), delivery_of(key)?))
}

/// The common prefix of all keys of one kind and tenant.
pub fn prefix(kind: Kind, tenant: TenantId) -> Vec<u8> {
    [&[kind as u8][..], &tenant.0.to_be_bytes()].concat()
}

/// The common prefix of all edge keys at one end.
pub fn edges_of(tenant: TenantId, end: MemoryId) -> Vec<u8> {
    [&prefix(Kind::Edge, tenant)[..], &end.0].concat()
}

/// The smallest byte string above every key that begins with `prefix`. Empty if there is
/// none.
pub fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.last_mut() {
        if let Some(next) = last.checked_add(1) {
            *last = next;
            return end;
        }
        end.pop();
    }
    end
}

/// Splits a key of a tenant into the tenant and the remaining parts.
///
/// # Errors
/// [`Error::Corrupt`] when the key is too short to hold them.
pub fn split(key: &[u8]) -> Result<(TenantId, &[u8])> {
    let (head, rest) = key.split_at_checked(5).ok_or_else(|| malformed(key))?;
    let tenant = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
    Ok((TenantId(tenant), rest))
}

/// Converts a part of a key into an array.
///
/// # Errors
/// [`Error::Corrupt`] when the length differs.
pub fn fixed<const N: usize>(part: &[u8]) -> Result<[u8; N]> {
    part.try_into().map_err(|_| malformed(part))
}

fn malformed(key: &[u8]) -> Error {
    Error::Corrupt { what: "key", detail: format!("{} bytes: {key:02x?}", key.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_every_key_are_fixed() {
        let tenant = TenantId(0x0102_0304);
        let id = MemoryId([0xaa; 16]);
        let t = [1, 2, 3, 4];
        let aa = [0xaa; 16];
        assert_eq!(Key::Position.bytes(), [0x01]);
        assert_eq!(Key::Cluster.bytes(), [0x02]);
        assert_eq!(Key::Tenant(tenant).bytes(), [&[0x10][..], &t].concat());
        let api_key = Key::ApiKey(tenant, KeyId([9; 8]));
        assert_eq!(api_key.bytes(), [&[0x11][..], &t, &[9; 8]].concat());
        assert_eq!(Key::Memory(tenant, id).bytes(), [&[0x20][..], &t, &aa].concat());
        assert_eq!(Key::Anchor(tenant, id).bytes(), [&[0x21][..], &t, &aa].concat());
        assert_eq!(Key::Vector(tenant, id).bytes(), [&[0x22][..], &t, &aa].concat());
        assert_eq!(Key::Tick(tenant).bytes(), [&[0x12][..], &t].concat());
        assert_eq!(Key::RecallStats(tenant).bytes(), [&[0x13][..], &t].concat());
        assert_eq!(Key::Usage(tenant, 5).bytes(), [&[0x14][..], &t, &[0, 0, 0, 5]].concat());
        assert_eq!(Key::LastReport(6).bytes(), [0x15, 0, 0, 0, 0, 0, 0, 0, 6]);
        assert_eq!(Key::Rules(tenant).bytes(), [&[0x16][..], &t].concat());
        let edge = Key::Edge(tenant, id, MemoryId([0xbb; 16]), [8; 8]);
        assert_eq!(edge.bytes(), [&[0x23][..], &t, &aa, &[0xbb; 16], &[8; 8]].concat());
        assert_eq!(Key::FirstEvent(tenant).bytes(), [&[0x42][..], &t].concat());
        let cursor = Cursor::new(6, 8);
        let of_trigger = Key::TriggerEvent(tenant, cursor).bytes();
        assert_eq!(
            of_trigger,
            [&[0x43][..], &t, &[0; 4], &[0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 8]].concat()
        );
        assert_eq!(cursor_of(&of_trigger[5..]).unwrap(), cursor);
        let trigger = TriggerId([0xcc; 16]);
        assert_eq!(Key::Trigger(tenant, trigger).bytes(), [&[0x50][..], &t, &[0xcc; 16]].concat());
        assert_eq!(Key::Firings(tenant, trigger).bytes(), [&[0x51][..], &t, &[0xcc; 16]].concat());
        assert_eq!(Key::Outbox(tenant).bytes(), [&[0x52][..], &t].concat());
        let delivery = DeliveryId { trigger, number: 9 };
        let d = [&[0xcc; 16][..], &[0, 0, 0, 0, 0, 0, 0, 9]].concat();
        assert_eq!(Key::Delivery(tenant, delivery).bytes(), [&[0x53][..], &t, &d].concat());
        let at = [0, 0, 0, 0, 0, 0, 1, 0];
        let due = Key::Due(tenant, Timestamp(256), delivery).bytes();
        assert_eq!(due, [&[0x54][..], &t, &at, &d].concat());
        assert_eq!(due_of(&due).unwrap(), (Timestamp(256), delivery));
        let dead = Key::DeadLetter(tenant, Timestamp(256), delivery).bytes();
        assert_eq!(dead, [&[0x55][..], &t, &at, &d].concat());
        assert_eq!(delivery_of(&due).unwrap(), delivery);
        let receipt = Key::Receipt(tenant, 5, [7; 32]);
        assert_eq!(receipt.bytes(), [&[0x30][..], &t, &[0, 0, 0, 5], &[7; 32]].concat());
        let event = Key::Event(tenant, Cursor::new(6, 8));
        assert_eq!(
            event.bytes(),
            [&[0x40][..], &t, &[0; 4], &[0, 0, 0, 0, 0, 0, 0, 6], &[0, 0, 0, 8]].concat()
        );
    }

    #[test]
    fn prefix_end_lies_above_all_keys() {
        assert_eq!(prefix_end(&[0x20, 0, 0, 0, 1]), [0x20, 0, 0, 0, 2]);
        assert_eq!(prefix_end(&[0x20, 0, 0, 0, 0xff]), [0x20, 0, 0, 1]);
        assert_eq!(prefix_end(&[0xff]), Vec::<u8>::new());
    }

    #[test]
    fn keys_split_into_tenant_and_rest() {
        let key = Key::Memory(TenantId(7), MemoryId([3; 16])).bytes();
        let (tenant, rest) = split(&key).unwrap();
        assert_eq!((tenant, fixed::<16>(rest).unwrap()), (TenantId(7), [3; 16]));
        assert!(split(&key[..4]).is_err());
        assert!(fixed::<8>(rest).is_err());
    }
}
