//! Fuzz targets of connections and messages between nodes, and of log records, behind the feature `fuzzing`.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Bytes, BytesMut};
use openraft::Membership;
use openraft::entry::RaftEntry;
use storage::codec::encode;
use storage::fuzz::{Target, commands, round_trip};
use storage::model::cluster::GROUP;
use storage::model::id::Timestamp;
use storage::{Accepted, Reply};
use tokio_util::codec::{Decoder, Encoder};

use crate::contact::Condition;
use crate::error::Outcome;
use crate::log::record::{
    EntryRecord, HighWaterMark, LogIdRecord, StoredMembershipRecord, VoteRecord,
};
use crate::network::frame::{MESSAGE, Returned, codec, frame, parse};
use crate::network::message::{
    AppendRpc, PeerIdentity, Request, Response, Rpc, RpcResponse, SnapshotRpc,
};
use crate::network::transfer::read_announcement;
use crate::segment::{LogEnd, Segment, SegmentHead};
use crate::types::{Entry, LogId, Payload, StoredMembership};

/// All targets of this crate.
pub const TARGETS: &[Target] = &[
    Target { name: "peer_frames", run: peer_frames, seeds: frame_seeds },
    Target { name: "peer_messages", run: peer_messages, seeds: message_seeds },
    Target { name: "log_records", run: log_records, seeds: log_seeds },
    Target { name: "segments", run: segments, seeds: segment_seeds },
];

const ID: LogIdRecord = LogIdRecord { term: 2, index: 300 };
const VOTE: VoteRecord = VoteRecord { term: 2, voted_for: 1, committed: true };

/// What arrives on a connection. A frame that is read is written as it was.
pub fn peer_frames(bytes: &[u8]) {
    let (mut codec, mut stream) = (codec(), BytesMut::from(bytes));
    while let Ok(Some(found)) = codec.decode(&mut stream) {
        let Ok((number, kind, message)) = parse(found.clone()) else { continue };
        assert_eq!(frame(number, kind, &message), found);
    }
}

fn frame_seeds() -> Vec<Vec<u8>> {
    let mut stream = BytesMut::new();
    let returned = [Returned::Message(vec![7; 300]), Returned::NotRead("x".into())];
    let mut add = |frame| codec().encode(frame, &mut stream).expect("a short frame");
    add(frame(u64::MAX, MESSAGE, b"request"));
    for (number, returned) in (1..).zip(&returned) {
        let (kind, message) = returned.parts();
        add(frame(number, kind, message));
    }
    vec![stream.to_vec()]
}

/// A request, a response, or the announcement of a snapshot. Entries that openraft accepts are
/// the entries of the message.
pub fn peer_messages(bytes: &[u8]) {
    drop(read_announcement(&mut &bytes[..]));
    round_trip::<Response>(bytes);
    match round_trip::<Request>(bytes).map(|request| request.call) {
        Some(Rpc::Append(call)) => {
            let status = call.quorum_status;
            if let Ok(request) = call.clone().into_raft() {
                assert_eq!(AppendRpc::new(request, status), call);
            }
        }
        Some(Rpc::Snapshot(call)) => drop(call.meta()),
        _ => {}
    }
}

/// Every record of `log/record.rs`. What openraft accepts is converted back to an equal record.
pub fn log_records(bytes: &[u8]) {
    round_trip::<LogIdRecord>(bytes);
    round_trip::<VoteRecord>(bytes);
    round_trip::<HighWaterMark>(bytes).map(|mark| mark.to_string());
    if let Some(stored) = round_trip::<StoredMembershipRecord>(bytes)
        && let Ok(membership) = stored.clone().into_stored()
    {
        assert_eq!(StoredMembershipRecord::from(&membership), stored);
    }
    if let Some(record) = round_trip::<EntryRecord>(bytes)
        && let Ok(entry) = record.clone().into_entry()
    {
        assert_eq!(EntryRecord::from(entry), record);
    }
}

/// A segment of a log outside the cluster: its bytes, and the same with a right hash. One that is read is
/// written as it was.
pub fn segments(bytes: &[u8]) {
    drop(SegmentHead::read(bytes));
    let bytes = Bytes::copy_from_slice(bytes);
    drop(Segment::decode(&bytes).map(|segment| segment.entries()));
    let Some(bytes) = Segment::with_right_hash(&bytes) else { return };
    let segment = Segment::decode(&bytes).expect("a segment with a right hash");
    assert_eq!(segment.encode(), bytes);
    drop(segment.entries());
}

fn segment_seeds() -> Vec<Vec<u8>> {
    let rows: Vec<_> = entries().iter().map(encode).collect();
    let before = LogEnd { term: 1, index: 299, sha256: None };
    let segment = Segment::new([7; 16], before, &rows, Timestamp(1));
    segment.into_iter().map(|segment| segment.encode()).collect()
}

fn message_seeds() -> Vec<Vec<u8>> {
    let from = PeerIdentity { cluster: Some([8; 16]), node: 5, incarnation: [6; 16] };
    let condition = Condition { wall_clock: Timestamp(1), boot: 3, ..Condition::default() };
    let append = AppendRpc {
        vote: VOTE,
        previous: Some(ID),
        entries: entries().into(),
        commit: Some(ID),
        quorum_status: None,
    };
    let snapshot = SnapshotRpc {
        vote: VOTE,
        last: Some(ID),
        membership: (&membership()).into(),
        files: vec![("CURRENT".into(), 16)],
    };
    let submits = commands().into_iter();
    let calls =
        submits.map(|command| Rpc::Submit { command: Box::new(command), span: None }).chain([
            Rpc::Identify,
            Rpc::Append(append),
            Rpc::Transfer { vote: VOTE, to: 2, last: Some(ID) },
            Rpc::Snapshot(snapshot),
            Rpc::Quarantine { mark: 7, majority: [9; 32] },
        ]);
    let request = |call| {
        let (to, incarnation, timeout_micros) = (Some(7), Some([6; 16]), 300);
        encode(&Request { group: GROUP, from, to, incarnation, condition, timeout_micros, call })
    };
    let mut seeds: Vec<_> = calls.map(request).collect();
    let announcements: Vec<_> = seeds.iter().map(|seed| announced(seed)).collect();
    let accepted = Accepted { reply: Reply::Done(()), notifications: Vec::new() };
    let outcome = Outcome { index: 300, accepted: Ok(accepted) };
    let results = [RpcResponse::Submitted(Ok(outcome), true), RpcResponse::ReadIndex(Some(300))];
    seeds.extend(results.map(|result| encode(&Response { from, condition, result: Ok(result) })));
    seeds.extend(announcements);
    seeds
}

/// A request as the start of a snapshot stream: its length, then its bytes.
fn announced(request: &[u8]) -> Vec<u8> {
    [&(request.len() as u32).to_be_bytes(), request].concat()
}

fn log_seeds() -> Vec<Vec<u8>> {
    let stored = StoredMembershipRecord::from(&membership());
    let mark = HighWaterMark { vote: Some(VOTE), last: Some(ID) };
    let records = [encode(&ID), encode(&VOTE), encode(&stored), encode(&mark)];
    records.into_iter().chain(entries().iter().map(encode)).collect()
}

fn entries() -> [EntryRecord; 3] {
    let id = LogId::from(ID);
    let members = membership().membership().clone();
    let entries = [
        Entry::new_blank(id),
        Entry::new_normal(id, Payload(vec![1, 2, 3].into())),
        Entry::new_membership(id, members),
    ];
    entries.map(EntryRecord::from)
}

fn membership() -> StoredMembership {
    let nodes = BTreeMap::from([1, 2, 3].map(|node| (node, format!("127.0.0.1:{node}"))));
    let voters = vec![BTreeSet::from([1, 2]), BTreeSet::from([1, 3])];
    let membership = Membership::new(voters, nodes).expect("every voter has an address");
    StoredMembership::new(Some(ID.into()), membership)
}
