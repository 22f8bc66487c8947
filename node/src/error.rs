//! Error texts. `node` is the edge of the program: its errors are printed for the operator, and
//! no code depends on their kind.

use std::fmt::Display;
use std::path::Path;

/// For `map_err`: the text of an error.
pub(crate) fn text(error: impl Display) -> String {
    error.to_string()
}

/// For `map_err`: "cannot `action`: error".
pub(crate) fn cannot<E: Display>(action: &str) -> impl Fn(E) -> String {
    move |error| format!("cannot {action}: {error}")
}

/// For `map_err`: "cannot use `path`: reason".
pub(crate) fn unusable<E: Display>(path: &Path) -> impl Fn(E) -> String {
    move |reason| format!("cannot use {}: {reason}", path.display())
}

/// For `map_err`: an error of the storage in folder `data`, with advice for the operator.
pub(crate) fn storage_error(data: &Path) -> impl Fn(storage::Error) -> String {
    move |error| format!("cannot open {}: {error}. {}", data.display(), error.advice())
}
