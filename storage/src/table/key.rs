//! All keys of `state/` and their encoding. Each value is a [`crate::codec::Record`].
//!
//! A key is the byte of its kind, then its parts. Integers are big-endian, so byte order is
//! the order of kind, tenant, id. A kind's byte is never reused for another kind. Decoding a
//! part of another length fails with [`Error::Corrupt`].

use model::audit::AuditChain;
use model::cluster::GroupId;
use model::cluster::VectorPlace;
use model::edge::RelationKey;
use model::id::{KeyId, MemoryId, TenantId, Timestamp, TriggerId};
use model::journal::{Cursor, JournalPart};
use model::receipt::{ReceiptKey, Retention};
use model::trigger::DeliveryId;

use crate::error::{Error, Result};

/// Defines the kinds of keys, the keys with their parts, and the encoding.
macro_rules! keys {
    ($($(#[$doc:meta])* $byte:literal $kind:ident $(($($part:ident: $type:ty),+))?,)*) => {
        /// First byte of a key.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Kind {
            $($(#[$doc])* $kind = $byte,)*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// Its name.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => stringify!($kind),)*
                }
            }
        }

        /// A key of `state/`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Key {
            $($(#[$doc])* $kind $(($($type),+))?,)*
        }

        impl Key {
            /// The encoded key.
            pub fn bytes(&self) -> Vec<u8> {
                let mut key = Vec::with_capacity(KEY_BYTES_MAX);
                match self {
                    $(Self::$kind $(($($part),+))? => {
                        key.push(Kind::$kind as u8);
                        $($($part.write(&mut key);)+)?
                    })*
                }
                key
            }
        }
    };
}

keys! {
    /// Position in the log up to which this state is applied.
    0x01 Position,
    /// Identity and members of the cluster.
    0x02 Cluster,
    /// What all tenants share.
    0x03 Tenancy,
    /// Which vectors are in use, once the embedding model was changed.
    0x04 Models,
    /// A tenant.
    0x10 Tenant(tenant: TenantId),
    /// An API key.
    0x11 ApiKey(tenant: TenantId, id: KeyId),
    /// A tenant's last decay tick.
    0x12 Tick(tenant: TenantId),
    /// Recall statistics of a tenant.
    0x13 RecallStats(tenant: TenantId),
    /// Usage of a tenant in one month. The number is the month: year · 12 + month − 1.
    0x14 Usage(tenant: TenantId, month: u32),
    /// The last report of a node.
    0x15 LastReport(node: u64),
    /// A tenant's access rules.
    0x16 Rules(tenant: TenantId),
    /// The kinds of use that are known of an API key.
    0x17 KeyUses(tenant: TenantId, id: KeyId),
    /// The last use of an API key.
    0x18 KeyUsed(tenant: TenantId, id: KeyId),
    /// Tombstones of a tenant whose hashes begin with this byte.
    0x19 Tombstones(tenant: TenantId, bucket: u8),
    /// A memory's text row.
    0x20 Memory(tenant: TenantId, id: MemoryId),
    /// A memory's anchor.
    0x21 Anchor(tenant: TenantId, id: MemoryId),
    /// A memory's vector.
    0x22 Vector(tenant: TenantId, id: MemoryId),
    /// An edge: this end, the other end, the relation. Stored twice, once at each end.
    0x23 Edge(tenant: TenantId, end: MemoryId, other: MemoryId, relation: RelationKey),
    /// The vector of a memory, of another model than that of the kind `Vector`.
    0x24 SecondVector(tenant: TenantId, id: MemoryId),
    /// The state of a memory, once it changed while the text stayed. That in the text row is then old.
    0x25 MemoryState(tenant: TenantId, id: MemoryId),
    /// The texts that a memory had before.
    0x26 MemoryVersions(tenant: TenantId, id: MemoryId),
    /// Receipt of an idempotent request of an API key.
    0x30 Receipt(tenant: TenantId, owner: KeyId, hash: ReceiptKey),
    /// Index of the receipts of an API key by age. No value.
    0x31 ReceiptAge(
        tenant: TenantId,
        owner: KeyId,
        retention: Retention,
        at: Timestamp,
        hash: ReceiptKey
    ),
    /// A journal event that is none of a trigger.
    0x40 Event(tenant: TenantId, cursor: Cursor),
    /// An entry of the audit log.
    0x41 Audit(tenant: TenantId, chain: AuditChain, number: u64),
    /// Cursor of a tenant's first retained event, once events were trimmed.
    0x42 FirstEvent(tenant: TenantId),
    /// A journal event of a trigger.
    0x43 TriggerEvent(tenant: TenantId, cursor: Cursor),
    /// The ends of a chain of the audit log.
    0x44 AuditEnds(tenant: TenantId, chain: AuditChain),
    /// A trigger.
    0x50 Trigger(tenant: TenantId, id: TriggerId),
    /// Firing counts of a trigger.
    0x51 Firings(tenant: TenantId, id: TriggerId),
    /// Delivery counts of a tenant.
    0x52 Outbox(tenant: TenantId),
    /// A delivery, pending or dead-lettered.
    0x53 Delivery(tenant: TenantId, id: DeliveryId),
    /// Index of pending deliveries by due time. No value.
    0x54 Due(tenant: TenantId, at: Timestamp, id: DeliveryId),
    /// Index of dead letters by the time of the last attempt. No value.
    0x55 DeadLetter(tenant: TenantId, at: Timestamp, id: DeliveryId),
}

impl Key {
    /// The key of a vector.
    pub fn vector(place: VectorPlace, tenant: TenantId, id: MemoryId) -> Self {
        match place {
            VectorPlace::First => Self::Vector(tenant, id),
            VectorPlace::Second => Self::SecondVector(tenant, id),
        }
    }

    /// The key of an event.
    pub fn event(tenant: TenantId, part: JournalPart, cursor: Cursor) -> Self {
        match part {
            JournalPart::Triggers => Self::TriggerEvent(tenant, cursor),
            JournalPart::Others => Self::Event(tenant, cursor),
        }
    }
}

impl Kind {
    /// The kind of the vectors in a place.
    pub fn of_vectors(place: VectorPlace) -> Self {
        match place {
            VectorPlace::First => Self::Vector,
            VectorPlace::Second => Self::SecondVector,
        }
    }

    /// The kind of the rows of a part of the journal.
    pub fn of_events(part: JournalPart) -> Self {
        match part {
            JournalPart::Triggers => Self::TriggerEvent,
            JournalPart::Others => Self::Event,
        }
    }

    /// The kinds whose keys belong to a tenant.
    pub fn of_tenants() -> impl Iterator<Item = Self> {
        let is_of_cluster = |kind: &Self| {
            matches!(
                kind,
                Self::Position | Self::Cluster | Self::Tenancy | Self::Models | Self::LastReport
            )
        };
        Self::ALL.iter().copied().filter(move |kind| !is_of_cluster(kind))
    }
}

/// Length of the longest keys, those of receipts by age.
const KEY_BYTES_MAX: usize = 54;

/// A part of a key. Bytes sort like the values.
trait Part {
    fn write(&self, key: &mut Vec<u8>);
}

/// Parts that are one array of bytes.
macro_rules! parts {
    ($($type:ty: |$part:ident| $bytes:expr;)*) => {$(
        impl Part for $type {
            fn write(&self, key: &mut Vec<u8>) {
                let $part = self;
                key.extend_from_slice(&$bytes);
            }
        }
    )*};
}

parts! {
    u8: |number| [*number];
    u32: |number| number.to_be_bytes();
    u64: |number| number.to_be_bytes();
    TenantId: |tenant| tenant.0.to_be_bytes();
    KeyId: |id| id.0;
    MemoryId: |id| id.0;
    TriggerId: |id| id.0;
    RelationKey: |relation| *relation;
    ReceiptKey: |hash| *hash;
    Retention: |retention| [*retention as u8];
    AuditChain: |chain| [*chain as u8];
    // Cluster timestamps are never negative.
    Timestamp: |at| at.0.to_be_bytes();
}

impl Part for Cursor {
    fn write(&self, key: &mut Vec<u8>) {
        self.group.0.write(key);
        self.index.write(key);
        self.ordinal.write(key);
    }
}

impl Part for DeliveryId {
    fn write(&self, key: &mut Vec<u8>) {
        self.trigger.write(key);
        self.number.write(key);
    }
}

/// Decodes the cursor from the part of an event key after the tenant.
pub fn cursor_of(part: &[u8]) -> Result<Cursor> {
    let bytes: [u8; 16] = fixed(part)?;
    Ok(Cursor {
        group: GroupId(u32::from_be_bytes(fixed(&bytes[..4])?)),
        index: u64::from_be_bytes(fixed(&bytes[4..12])?),
        ordinal: u32::from_be_bytes(fixed(&bytes[12..])?),
    })
}

/// Decodes the delivery id from the last 24 bytes of a key.
pub fn delivery_of(key: &[u8]) -> Result<DeliveryId> {
    let bytes = key.last_chunk::<24>().ok_or_else(|| malformed(key))?;
    let (trigger, number) = bytes.split_at(16);
    Ok(DeliveryId {
        trigger: TriggerId(fixed(trigger)?),
        number: u64::from_be_bytes(fixed(number)?),
    })
}

/// Decodes time and delivery id from a key of [`Kind::Due`] or [`Kind::DeadLetter`].
pub fn timed_delivery_of(key: &[u8]) -> Result<(Timestamp, DeliveryId)> {
    let (_, rest) = split(key)?;
    let at = rest.first_chunk().ok_or_else(|| malformed(key))?;
    Ok((Timestamp(i64::from_be_bytes(*at)), delivery_of(key)?))
}

/// Decodes owner and hash from a key of [`Kind::Receipt`].
pub fn receipt_key_of(key: &[u8]) -> Result<(KeyId, ReceiptKey)> {
    let bytes: [u8; 40] = fixed(split(key)?.1)?;
    Ok((KeyId(fixed(&bytes[..8])?), fixed(&bytes[8..])?))
}

/// Decodes owner, retention, time and hash from a key of [`Kind::ReceiptAge`].
pub fn receipt_of(key: &[u8]) -> Result<(KeyId, Retention, Timestamp, ReceiptKey)> {
    let bytes: [u8; 49] = fixed(split(key)?.1)?;
    let retention = Retention::ALL.get(usize::from(bytes[8])).ok_or_else(|| malformed(key))?;
    let at = Timestamp(i64::from_be_bytes(fixed(&bytes[9..17])?));
    Ok((KeyId(fixed(&bytes[..8])?), *retention, at, fixed(&bytes[17..])?))
}

/// The common prefix of all keys of one kind and tenant.
pub fn prefix(kind: Kind, tenant: TenantId) -> Vec<u8> {
    let [a, b, c, d] = tenant.0.to_be_bytes();
    vec![kind as u8, a, b, c, d]
}

/// The common prefix of all edge keys at one end.
pub fn edges_of(tenant: TenantId, end: MemoryId) -> Vec<u8> {
    [&prefix(Kind::Edge, tenant)[..], &end.0].concat()
}

/// The smallest byte string above every key that begins with `prefix`; empty if none.
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
pub fn split(key: &[u8]) -> Result<(TenantId, &[u8])> {
    let (head, rest) = key.split_at_checked(5).ok_or_else(|| malformed(key))?;
    let tenant = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
    Ok((TenantId(tenant), rest))
}

/// Converts a part of a key into an array.
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
        let (tenant, id, trigger) =
            (TenantId(0x0102_0304), MemoryId([0xaa; 16]), TriggerId([0xcc; 16]));
        let (cursor, at) = (Cursor::new(6, 8), Timestamp(256));
        let delivery = DeliveryId { trigger, number: 9 };
        let (t, aa, bb, cc) = ("01020304", "aa".repeat(16), "bb".repeat(16), "cc".repeat(16));
        let (c, d) = ("00000000000000000000000600000008", format!("{cc}0000000000000009"));
        let (hash, h) = ([7; 32], "07".repeat(32));
        let age = Key::ReceiptAge(tenant, KeyId([9; 8]), Retention::Day, at, hash);
        for (key, expected) in [
            (Key::Position, "01".to_owned()),
            (Key::Cluster, "02".to_owned()),
            (Key::Tenancy, "03".to_owned()),
            (Key::Tenant(tenant), format!("10{t}")),
            (Key::ApiKey(tenant, KeyId([9; 8])), format!("11{t}0909090909090909")),
            (Key::Tick(tenant), format!("12{t}")),
            (Key::RecallStats(tenant), format!("13{t}")),
            (Key::Usage(tenant, 5), format!("14{t}00000005")),
            (Key::LastReport(6), "150000000000000006".to_owned()),
            (Key::Rules(tenant), format!("16{t}")),
            (Key::KeyUses(tenant, KeyId([9; 8])), format!("17{t}0909090909090909")),
            (Key::KeyUsed(tenant, KeyId([9; 8])), format!("18{t}0909090909090909")),
            (Key::Memory(tenant, id), format!("20{t}{aa}")),
            (Key::Anchor(tenant, id), format!("21{t}{aa}")),
            (Key::Vector(tenant, id), format!("22{t}{aa}")),
            (Key::SecondVector(tenant, id), format!("24{t}{aa}")),
            (Key::MemoryState(tenant, id), format!("25{t}{aa}")),
            (Key::MemoryVersions(tenant, id), format!("26{t}{aa}")),
            (
                Key::Edge(tenant, id, MemoryId([0xbb; 16]), [8; 8]),
                format!("23{t}{aa}{bb}0808080808080808"),
            ),
            (Key::Receipt(tenant, KeyId([9; 8]), hash), format!("30{t}0909090909090909{h}")),
            (age, format!("31{t}0909090909090909010000000000000100{h}")),
            (Key::Event(tenant, cursor), format!("40{t}{c}")),
            (Key::Audit(tenant, AuditChain::Data, 7), format!("41{t}010000000000000007")),
            (Key::AuditEnds(tenant, AuditChain::Administration), format!("44{t}00")),
            (Key::FirstEvent(tenant), format!("42{t}")),
            (Key::TriggerEvent(tenant, cursor), format!("43{t}{c}")),
            (Key::Trigger(tenant, trigger), format!("50{t}{cc}")),
            (Key::Firings(tenant, trigger), format!("51{t}{cc}")),
            (Key::Outbox(tenant), format!("52{t}")),
            (Key::Delivery(tenant, delivery), format!("53{t}{d}")),
            (Key::Due(tenant, at, delivery), format!("54{t}0000000000000100{d}")),
            (Key::DeadLetter(tenant, at, delivery), format!("55{t}0000000000000100{d}")),
        ] {
            assert_eq!(hex::encode(key.bytes()), expected, "{key:?}");
            assert!(key.bytes().len() <= KEY_BYTES_MAX);
        }
        assert_eq!(cursor_of(&Key::TriggerEvent(tenant, cursor).bytes()[5..]).unwrap(), cursor);
        let due = Key::Due(tenant, at, delivery).bytes();
        assert_eq!(timed_delivery_of(&due).unwrap(), (at, delivery));
        assert_eq!(delivery_of(&due).unwrap(), delivery);
        let age = Key::ReceiptAge(tenant, KeyId([9; 8]), Retention::Day, at, hash).bytes();
        assert_eq!(receipt_of(&age).unwrap(), (KeyId([9; 8]), Retention::Day, at, hash));
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
