//! Where a memory comes from. It is stamped from the request that created it, never from its text.

use serde::{Deserialize, Serialize};
use text::term::TermHash;

use crate::id::KeyId;

/// Most bytes of the name of a client and of a tool.
pub const ORIGIN_BYTES_MAX: usize = 64;

/// Where a memory comes from, or parts of it that a filter requires.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The key of the request.
    pub key: Option<KeyId>,
    /// The name that this key had: the agent.
    pub agent: Option<String>,
    /// The program that sent the request, as its `User-Agent` begins: a name, and maybe `/version`.
    pub client: Option<String>,
    /// The tool by which the agent stored it, as the request says.
    pub tool: Option<String>,
}

impl Origin {
    /// Whether all parts of `required` are those of this origin. A client is also named without its
    /// version.
    pub fn has(&self, required: &Self) -> bool {
        let terms = self.terms();
        required.named().iter().all(|term| terms.contains(term))
    }

    /// Its parts as terms of an index.
    pub fn terms(&self) -> Vec<String> {
        let mut terms = self.named();
        if let Some((name, _)) = self.client.as_deref().and_then(|client| client.split_once('/')) {
            terms.push(term("client", name));
        }
        terms
    }

    /// Hashes of [`terms`](Self::terms).
    pub fn hashes(&self) -> Vec<TermHash> {
        self.terms().iter().map(|term| TermHash::of(term)).collect()
    }

    /// One term for each part.
    pub fn named(&self) -> Vec<String> {
        let key = self.key.map(|key| key.to_string());
        let parts = [
            ("key", key.as_ref()),
            ("agent", self.agent.as_ref()),
            ("client", self.client.as_ref()),
            ("tool", self.tool.as_ref()),
        ];
        parts.into_iter().filter_map(|(part, value)| Some(term(part, value?))).collect()
    }
}

fn term(part: &str, value: &str) -> String {
    format!("{part}={value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_is_named_with_and_without_version() {
        let client = |client: &str| Origin { client: Some(client.into()), ..Origin::default() };
        let origin = Origin { agent: Some("helper".into()), ..client("notes/1.2") };
        for required in [client("notes/1.2"), client("notes"), Origin::default(), origin.clone()] {
            assert!(origin.has(&required), "{required:?}");
        }
        let other = Origin { agent: Some("notes".into()), ..Origin::default() };
        for required in [client("notes/1"), client("1.2"), client("helper"), other] {
            assert!(!origin.has(&required), "{required:?}");
        }
    }
}
