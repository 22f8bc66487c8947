//! The profiles of a person: named clusters with their URLs, authority and key, in one file that only
//! its owner reads.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{cannot, unusable};
use crate::identity::create_private_folder;

/// Variable that names another file.
const FILE_VARIABLE: &str = "HEARTH_PROFILES";

/// One cluster and one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    /// Public listeners of its nodes.
    pub(crate) urls: Vec<String>,
    pub(crate) key: String,
    /// Certificate authority of the cluster, as PEM; without it, those of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<String>,
    /// Namespace of new memories and of searches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
}

/// The file of profiles.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profiles {
    /// Name of the profile that commands use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    #[serde(default)]
    profiles: BTreeMap<String, Profile>,
}

impl Profiles {
    /// The profiles; none, if the file does not exist.
    pub(crate) fn load() -> Result<Self, String> {
        let path = file()?;
        match std::fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text).map_err(unusable(&path)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(unusable(&path)(error)),
        }
    }

    /// The profile `name`, or the current one. `None` if there is no current one.
    pub(crate) fn get(&self, name: Option<&str>) -> Result<Option<&Profile>, String> {
        let Some(name) = name.or(self.current.as_deref()) else { return Ok(None) };
        let known = || self.profiles.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let missing = || format!("there is no profile {name:?}; known are: {}", known());
        self.profiles.get(name).map(Some).ok_or_else(missing)
    }

    /// Adds or replaces a profile, and makes it current if `current` says so or there is none.
    /// Returns the path of the file, and whether the profile is the current one.
    pub(crate) fn put(
        name: &str,
        profile: Profile,
        current: bool,
    ) -> Result<(PathBuf, bool), String> {
        let mut all = Self::load()?;
        all.profiles.insert(name.to_owned(), profile);
        if current || all.current.is_none() {
            all.current = Some(name.to_owned());
        }
        let is_current = all.current.as_deref() == Some(name);
        Ok((all.save()?, is_current))
    }

    /// Removes a profile, unless it is another one by now.
    pub(crate) fn remove(name: &str, profile: &Profile) -> Result<(), String> {
        let mut all = Self::load()?;
        if all.profiles.get(name) != Some(profile) {
            return Ok(());
        }
        all.profiles.remove(name);
        all.current = all.current.filter(|current| current != name);
        all.save().map(drop)
    }

    fn save(&self) -> Result<PathBuf, String> {
        let path = file()?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        create_private_folder(folder).map_err(cannot(&format!("create {}", folder.display())))?;
        let text = toml::to_string(self).map_err(unusable(&path))?;
        storage::file::replace_secret(&path, text.as_bytes()).map_err(unusable(&path))?;
        Ok(path)
    }
}

fn file() -> Result<PathBuf, String> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(path) = variable(FILE_VARIABLE) {
        return Ok(path.into());
    }
    let config = variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let home = || variable("HOME").map(|home| PathBuf::from(home).join(".config"));
    let folder = config.or_else(home);
    let folder = folder.ok_or_else(|| format!("set HOME or {FILE_VARIABLE}"))?;
    Ok(folder.join("hearth/profiles.toml"))
}
