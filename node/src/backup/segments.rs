//! The log of a cluster in a place of backups: segments, each under the index of its first entry. A
//! segment is only ever created, so of two nodes that write the next one, one succeeds. Segments may
//! still overlap: two nodes may begin after different entries.

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{Error, ObjectStoreExt, PutMode, PutPayload};
use raft::{HEAD_BYTES_MAX, LogEnd, Segment, SegmentHead};

use crate::backup::store::Store;
use crate::error::text;

/// Largest segment that is read.
const SEGMENT_BYTES_MAX: u64 = 64 << 20;

/// Segments that are read at a time.
const READS_MAX: usize = 16;
/// Segments before an entry among which one that contains it is searched.
const OVERLAPS_MAX: usize = 16;

impl Store {
    fn log_path(&self, cluster: &str) -> Path {
        self.root.clone().join("log").join(cluster.to_owned())
    }

    /// Padded, so that names sort like the indexes.
    fn segment_path(&self, cluster: &str, first: u64) -> Path {
        self.log_path(cluster).join(format!("{first:020}"))
    }

    /// Creates a segment. Returns `false` if another node has created it.
    pub(crate) async fn put_segment(
        &self,
        cluster: &str,
        segment: &Segment,
    ) -> Result<bool, String> {
        let path = self.segment_path(cluster, segment.head.before.index + 1);
        self.create(&path, segment.encode()).await
    }

    /// Checks that the place refuses to overwrite an object on request.
    pub(crate) async fn check_creation(&self) -> Result<(), String> {
        let path = self.root.clone().join("created-once");
        self.create(&path, Vec::new()).await?;
        match self.create(&path, Vec::new()).await? {
            false => Ok(()),
            true => Err(
                "the place of backups ignores `If-None-Match`: set backup.log_seconds to 0, or \
                         use another one"
                    .into(),
            ),
        }
    }

    /// Creates an object. Returns `false` if there is one.
    async fn create(&self, path: &Path, bytes: Vec<u8>) -> Result<bool, String> {
        match self.objects.put_opts(path, PutPayload::from(bytes), PutMode::Create.into()).await {
            Ok(_) => Ok(true),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
            Err(error) => Err(text(error)),
        }
    }

    /// The head of the segment that begins with entry `first`.
    pub(crate) async fn segment_head(
        &self,
        cluster: &str,
        first: u64,
    ) -> Result<Option<SegmentHead>, String> {
        let path = self.segment_path(cluster, first);
        match self.objects.get_range(&path, 0..HEAD_BYTES_MAX as u64).await {
            Ok(bytes) => {
                SegmentHead::read(&bytes).map(Some).map_err(|error| format!("{path}: {error}"))
            }
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(text(error)),
        }
    }

    /// The segment that begins with entry `first`.
    pub(crate) async fn segment(&self, cluster: &str, first: u64) -> Result<Segment, String> {
        let path = self.segment_path(cluster, first);
        let found = self.objects.get(&path).await.map_err(text)?;
        if found.meta.size > SEGMENT_BYTES_MAX {
            return Err(format!("{path} is too long"));
        }
        let bytes: Bytes = found.bytes().await.map_err(text)?;
        let segment = Segment::decode(&bytes).map_err(|error| format!("{path}: {error}"))?;
        match hex::encode(segment.head.cluster) == cluster {
            true => Ok(segment),
            false => Err(format!("{path} is of another cluster")),
        }
    }

    /// Checks that the log of a cluster goes on after an entry without a gap: reads the heads of its
    /// segments, and with `data` the entries. Returns the last head.
    pub(crate) async fn check_log(
        &self,
        cluster: &str,
        after: &LogEnd,
        data: bool,
    ) -> Result<Option<SegmentHead>, String> {
        let read = async |first: u64| match data {
            true => self.segment(cluster, first).await.map(|segment| segment.head),
            false => self.segment_head(cluster, first).await?.ok_or_else(|| absent(first)),
        };
        let firsts = self.segments_after(cluster, after.index).await?;
        let mut heads = stream::iter(firsts).map(read).buffered(READS_MAX);
        let (mut last, mut end): (Option<SegmentHead>, _) = (None, *after);
        while let Some(head) = heads.try_next().await? {
            if head.last.index <= end.index {
                continue;
            }
            if head.before.index > end.index
                || head.before.index == end.index && !head.before.is(&end)
            {
                return Err(absent(end.index + 1));
            }
            (last, end) = (Some(head), head.last);
        }
        Ok(last)
    }

    /// First indexes of the segments of a cluster that have entries after entry `index`, ascending. The
    /// first ones may begin before it, and end before it.
    pub(crate) async fn segments_after(
        &self,
        cluster: &str,
        index: u64,
    ) -> Result<Vec<u64>, String> {
        let mut firsts = self.segments(cluster).await?;
        let upto = firsts.partition_point(|first| *first <= index + 1);
        let mut begin = upto;
        // Of segments that overlap, the one that goes furthest may begin first.
        for at in (upto.saturating_sub(OVERLAPS_MAX)..upto).rev() {
            begin = at;
            let head = self.segment_head(cluster, firsts[at]).await?;
            if head.is_some_and(|head| head.last.index > index) {
                break;
            }
        }
        Ok(firsts.split_off(begin))
    }

    /// The last entry that is kept of the log of a cluster.
    pub(crate) async fn log_end(&self, cluster: &str) -> Result<Option<LogEnd>, String> {
        let Some(first) = self.segments(cluster).await?.last().copied() else { return Ok(None) };
        Ok(self.segment_head(cluster, first).await?.map(|head| head.last))
    }

    /// Removes the segments of a cluster whose entries are all in the backup of entry `index`. Returns
    /// how many.
    pub(super) async fn prune_log(&self, cluster: &str, index: u64) -> Result<usize, String> {
        let (firsts, mut removed) = (self.segments(cluster).await?, 0);
        for pair in firsts.windows(2).filter(|pair| pair[1] <= index + 1) {
            self.objects.delete(&self.segment_path(cluster, pair[0])).await.map_err(text)?;
            removed += 1;
        }
        Ok(removed)
    }

    /// First indexes of all segments of a cluster, ascending.
    async fn segments(&self, cluster: &str) -> Result<Vec<u64>, String> {
        let found = self.list_below(&self.log_path(cluster)).await?;
        let mut firsts: Vec<u64> =
            found.iter().filter_map(|object| object.location.filename()?.parse().ok()).collect();
        firsts.sort_unstable();
        Ok(firsts)
    }
}

fn absent(first: u64) -> String {
    format!("entry {first} of the log is absent, and later ones are there")
}
