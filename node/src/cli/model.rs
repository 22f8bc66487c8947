//! `hearth model`: shows and changes the embedding model of a running cluster, through the operator's
//! listener of any node.

#![expect(clippy::print_stdout, reason = "the output of the command")]

use std::path::PathBuf;

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

use crate::cli::operator::OperatorAccess;
use crate::failure::Failure;

/// Arguments of `hearth model`.
#[derive(Args)]
pub(crate) struct Model {
    #[command(flatten)]
    access: OperatorAccess,
    #[command(subcommand)]
    command: ModelCommand,
}

#[derive(Subcommand)]
enum ModelCommand {
    /// Show the model, and the progress of a change
    Status,
    /// Begin to change the model. All memories are embedded in the background, then the cluster
    /// switches by itself
    Set {
        /// Folder of the model, the same on every node
        folder: PathBuf,
    },
    /// Give up a change, at any time before the switch
    Cancel,
    /// Let the switch not wait for nodes that have not loaded the model. They stop at the switch
    Switch {
        /// Confirms that
        #[arg(long, required = true)]
        force: bool,
    },
}

impl Model {
    /// `environment` overrides keys of the configuration.
    pub(crate) async fn run(
        self,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<(), Failure> {
        let operator = self.access.open(environment)?;
        let (method, path, body) = match self.command {
            ModelCommand::Status => (Method::GET, "/cluster/model", None),
            ModelCommand::Set { folder } => {
                (Method::POST, "/cluster/model", Some(json!({ "folder": folder })))
            }
            ModelCommand::Cancel => (Method::DELETE, "/cluster/model", None),
            ModelCommand::Switch { .. } => (Method::POST, "/cluster/model/switch", None),
        };
        println!("{}", status_text(&operator.request(method, path, body).await?));
        Ok(())
    }
}

fn status_text(status: &Value) -> String {
    let name = |model: &Value| {
        let text = |field: &str| model[field].as_str().unwrap_or_default().to_owned();
        format!("{} ({}, {} components)", text("name"), text("id"), model["dimension"])
    };
    let next = &status["next"];
    let mut lines = format!("The model is {}.", name(&status["model"]));
    if next.is_null() {
        return lines + " No change is under way.";
    }
    lines += &format!(
        "\nThe next one is {} in {}.\n{} of {} memories are embedded by it. Nodes that have loaded it: {}.",
        name(next),
        next["folder"].as_str().unwrap_or_default(),
        next["embedded"],
        next["memories"],
        next["ready"],
    );
    if next["is_switching"] == true {
        lines += "\nThe cluster is about to switch: new texts are rejected for the moment.";
    }
    lines
}
