//! Reading a draft: the state, with the rows that the batch has changed so far.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::cluster::Cluster;
use model::cluster::Models;

use crate::decide::draft::Draft;
use crate::error::Result;
use crate::table::key::Key;
use crate::table::view::{Row, View};

impl View for Draft {
    fn bytes(&self, key: &Key) -> Result<Option<Vec<u8>>> {
        match self.rows.get(&key.bytes()) {
            Some(row) => Ok(row.clone()),
            None => self.base.bytes(key),
        }
    }

    fn rows(&self, prefix: &[u8], most: usize) -> Result<Vec<Row>> {
        let drafted = self.rows.range(prefix.to_vec()..);
        let drafted: Vec<_> = drafted.take_while(|(key, _)| key.starts_with(prefix)).collect();
        // As many more as the draft may have deleted.
        let stored = self.base.rows(prefix, most + drafted.len())?;
        let mut rows: BTreeMap<Box<[u8]>, Box<[u8]>> = stored.into_iter().collect();
        for (key, row) in drafted {
            match row {
                Some(row) => rows.insert(key.as_slice().into(), row.as_slice().into()),
                None => rows.remove(key.as_slice()),
            };
        }
        Ok(rows.into_iter().take(most).collect())
    }

    fn cluster(&self) -> Result<Option<Arc<Cluster>>> {
        match self.rows.contains_key(&Key::Cluster.bytes()) {
            true => Ok(self.record(&Key::Cluster)?.map(Arc::new)),
            false => self.base.cluster(),
        }
    }

    fn models(&self) -> Result<Models> {
        match self.rows.contains_key(&Key::Models.bytes()) {
            true => Ok(self.record(&Key::Models)?.unwrap_or_default()),
            false => self.base.models(),
        }
    }
}
