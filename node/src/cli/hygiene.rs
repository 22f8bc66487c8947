//! `hearth hygiene`: examines all memories of a tenant, through the public listener of any node, and
//! prints what spoils them and the remedy.

#![expect(clippy::print_stdout, reason = "the output of the command")]

use std::collections::BTreeMap;

use clap::Args;
use serde::Deserialize;

use crate::client::access::Access;
use crate::failure::Failure;

/// Examples of a defect that are shown.
const EXAMPLES_MAX: usize = 5;

/// Arguments of `hearth hygiene`.
#[derive(Args)]
pub(crate) struct Hygiene {
    #[command(flatten)]
    access: Access,
}

/// A part of the report, as the node sends it.
#[derive(Deserialize)]
struct HygienePage {
    examined: usize,
    defects: Vec<Defect>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct Defect {
    defect: String,
    count: usize,
    examples: Vec<Example>,
    command: String,
}

#[derive(Deserialize)]
struct Example {
    id: String,
    label: String,
}

impl Hygiene {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let connection = self.access.connect()?;
        let (mut examined, mut defects) = (0, BTreeMap::new());
        let mut order = Vec::new();
        let mut cursor = None;
        loop {
            let part: HygienePage = connection.get("/admin/hygiene", &[("cursor", cursor)]).await?;
            examined += part.examined;
            for defect in part.defects {
                if !defects.contains_key(&defect.defect) {
                    order.push(defect.defect.clone());
                    defects.insert(defect.defect.clone(), defect);
                } else if let Some(sum) = defects.get_mut(&defect.defect) {
                    sum.count += defect.count;
                    sum.examples.extend(defect.examples);
                    sum.examples.truncate(EXAMPLES_MAX);
                }
            }
            cursor = part.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        println!("{examined} memories");
        for defect in order.iter().filter_map(|name| defects.get(name)) {
            println!("{}", defect_text(defect));
        }
        Ok(())
    }
}

/// A defect with its examples and the remedy.
fn defect_text(defect: &Defect) -> String {
    let name = defect.defect.replace('_', " ");
    let mut lines = format!("{:>8}  {name}", defect.count);
    if defect.count == 0 {
        return lines;
    }
    for Example { id, label } in &defect.examples {
        let label = label.split_whitespace().collect::<Vec<_>>().join(" ");
        lines += &format!("\n            {id}  {label}");
    }
    lines + &format!("\n            remedy: {}", defect.command)
}
