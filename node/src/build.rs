//! What this program was built of.

/// Its version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit, of `make build`, `make release` and images. Other builds, whose sources change all the
/// time, do not have it.
pub(crate) const COMMIT: &str = match option_env!("HEARTH_COMMIT") {
    Some(commit) => commit,
    None => "development",
};
