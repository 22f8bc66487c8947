//! `hearth shell`: completions for shells, and manual pages.

use std::path::PathBuf;

use clap::Subcommand;

use crate::error::{cannot, unusable};
use crate::failure::Failure;

/// Arguments of `hearth shell`.
#[derive(Subcommand)]
pub(crate) enum Shell {
    /// Print completions: `eval "$(hearth shell completions bash)"`
    Completions { shell: clap_complete::Shell },
    /// Write a manual page for each command into a folder
    Manual { folder: PathBuf },
}

impl Shell {
    /// `command` is the whole command line.
    pub(crate) fn run(self, mut command: clap::Command) -> Result<(), Failure> {
        match self {
            Self::Completions { shell } => {
                let name = command.get_name().to_owned();
                clap_complete::generate(shell, &mut command, name, &mut std::io::stdout());
            }
            Self::Manual { folder } => {
                std::fs::create_dir_all(&folder).map_err(unusable(&folder))?;
                clap_mangen::generate_to(command, &folder).map_err(cannot("write the pages"))?;
            }
        }
        Ok(())
    }
}
