//! This program: its version and commit, and what is installed with it, the embedding model and ONNX Runtime.

use std::path::PathBuf;

/// Its version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit, of `make build`, `make release` and images. Other builds, whose sources change all the
/// time, do not have it.
pub(crate) const COMMIT: &str = match option_env!("HEARTH_COMMIT") {
    Some(commit) => commit,
    None => "development",
};

/// Name of the model's folder.
const MODEL: &str = "all-MiniLM-L6-v2";
/// File name of ONNX Runtime.
const LIBRARY: &str = "libonnxruntime.so.1.31.1";

/// A model and a library that are on this machine.
#[derive(Debug, PartialEq, Eq)]
pub struct Installed {
    /// Folder of the model.
    pub model: PathBuf,
    /// ONNX Runtime.
    pub library: PathBuf,
}

/// What belongs to this program: what a package installed with it, as `../share/hearth` and
/// `../lib/hearth` from its folder; without that, what `make setup` keeps in its cache. `None` if
/// neither is there.
pub fn installed() -> Option<Installed> {
    let program = std::env::current_exe().ok();
    let prefix = program.as_deref().and_then(|program| program.parent()?.parent());
    let packaged = prefix.map(|prefix| Installed {
        model: prefix.join("share/hearth").join(MODEL),
        library: prefix.join("lib/hearth").join(LIBRARY),
    });
    let cached = cache().map(|cache| Installed {
        model: cache.join("models").join(MODEL),
        library: cache.join("onnxruntime").join(LIBRARY),
    });
    packaged.into_iter().chain(cached).find(|it| it.model.exists() && it.library.exists())
}

/// The folder into which `make setup` installs; `None` if no variable names one.
pub fn cache() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    folder("HEARTH_CACHE")
        .or_else(|| folder("XDG_CACHE_HOME").map(|cache| cache.join("hearth")))
        .or_else(|| folder("HOME").map(|home| home.join(".cache/hearth")))
}
