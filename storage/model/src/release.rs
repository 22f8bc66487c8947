//! Releases of Hearth, and the feature level that the nodes of a cluster share.
//!
//! A node may emit a kind of record only if every member can read it. So each kind has a feature
//! level, and the cluster has the lowest level of all members. It only rises.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Feature level of this version. It is raised with each new kind of change, command or call.
///
/// | level | adds |
/// |---|---|
/// | 1 | all; it stays until version 1.0.0 |
pub const LEVEL: u16 = 1;

/// A version of Hearth and its feature level. Releases are ordered by their levels first.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Release {
    /// Its feature level.
    pub level: u16,
    /// Its version: major, minor, patch.
    pub version: (u16, u16, u16),
}

/// The cluster has a feature level that only a newer version of Hearth knows. Nothing is damaged.
#[derive(Debug, thiserror::Error)]
#[error(
    "the data needs version {needed} of Hearth or a later one, since its cluster has feature level \
     {}: this is version {own} with level {}",
    needed.level, own.level
)]
pub struct NeedsRelease {
    /// The release that it needs.
    pub needed: Release,
    /// That of this binary.
    pub own: Release,
}

/// The release of this binary.
const OWN: Release = Release {
    level: LEVEL,
    version: (
        number(env!("CARGO_PKG_VERSION_MAJOR")),
        number(env!("CARGO_PKG_VERSION_MINOR")),
        number(env!("CARGO_PKG_VERSION_PATCH")),
    ),
};

const fn number(digits: &str) -> u16 {
    match u16::from_str_radix(digits, 10) {
        Ok(number) => number,
        Err(_) => panic!("a part of the version is no number"),
    }
}

impl fmt::Display for Release {
    /// The version, as in `0.9.0`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor, patch) = self.version;
        write!(out, "{major}.{minor}.{patch}")
    }
}

impl Release {
    /// That of this binary.
    pub fn own() -> Self {
        // Tests upgrade to a version that they make up.
        fail::fail_point!("feature-level", |level| {
            let level = level.and_then(|level| level.parse().ok()).unwrap_or(LEVEL);
            let (major, minor, patch) = OWN.version;
            Self { level, version: (major, minor + level - LEVEL, patch) }
        });
        OWN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowest_level_is_the_least_release() {
        let release = |level, minor| Release { level, version: (0, minor, 0) };
        let releases = [release(2, 3), release(1, 9), release(2, 1)];
        assert_eq!(releases.iter().min(), Some(&release(1, 9)));
        assert_eq!(release(2, 1).to_string(), "0.1.0");
        assert_eq!(Release::own().to_string(), env!("CARGO_PKG_VERSION"));
    }
}
