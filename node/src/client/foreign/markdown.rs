//! Folders of Markdown: each file is a memory, without its front matter.

use std::path::{Path, PathBuf};

use crate::client::foreign::found::{Entries, Found, Read};
use crate::client::foreign::read::decoded;
use crate::error::unusable;
use crate::failure::Failure;

/// Depth of subfolders that are read.
const DEPTH_MAX: usize = 16;

/// What was read of each file, by its path in the folder.
pub(super) fn files(folder: &Path) -> Result<Entries, Failure> {
    let mut paths = Vec::new();
    list(folder, DEPTH_MAX, &mut paths)?;
    paths.sort();
    let read = |path: &PathBuf| {
        let place = path.strip_prefix(folder).unwrap_or(path).to_string_lossy().into_owned();
        let bytes = std::fs::read(path).map_err(|error| error.to_string());
        let content = bytes.and_then(|bytes| decoded(bytes).map_err(str::to_owned));
        let read = content.map(|content| {
            let name = place.rsplit_once('.').map_or(&*place, |(name, _)| name);
            Read::Memory(Found {
                key: vec!["markdown".into(), name.to_owned()],
                label: body(&content.replace("\r\n", "\n")).to_owned(),
                memory_type: "semantic",
                metadata: [("file".to_owned(), name.into())].into_iter().collect(),
                ..Found::default()
            })
        });
        (place, read)
    };
    Ok(paths.iter().map(read).collect())
}

fn list(folder: &Path, depth: usize, paths: &mut Vec<PathBuf>) -> Result<(), Failure> {
    for entry in std::fs::read_dir(folder).map_err(unusable(folder))? {
        let entry = entry.map_err(unusable(folder))?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(unusable(folder))?);
        let is_markdown = path.extension().is_some_and(|end| {
            ["md", "markdown"].iter().any(|known| end.eq_ignore_ascii_case(known))
        });
        if kind.is_dir() && depth > 0 {
            list(&path, depth - 1, paths)?;
        } else if !kind.is_dir() && is_markdown {
            paths.push(path);
        }
    }
    Ok(())
}

/// A text without its front matter: lines of fields between two fences. A thematic break at the start is none.
fn body(content: &str) -> &str {
    let Some(rest) = content.strip_prefix("---\n") else { return content };
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        let begin = at;
        at += line.len();
        if line.trim_end() == "---" {
            let fields = &rest[..begin];
            let is_front_matter = fields.lines().all(|line| {
                let line = line.trim_end();
                line.is_empty() || line.starts_with([' ', '-', '#', '\t']) || line.contains(':')
            });
            return if is_front_matter { &rest[at..] } else { content };
        }
    }
    content
}

#[cfg(test)]
mod tests {
    use super::body;

    #[test]
    fn front_matter_is_left_out() {
        for (content, text) in [
            ("---\ntitle: a\n---\nbody", "body"),
            ("---\ntitle: a\ntags: [b]\n---", ""),
            ("---\ntitle: a\n---  \nbody", "body"),
            ("---\ntitle: never closed\nbody", "---\ntitle: never closed\nbody"),
            ("---\n\nA first scene\n\n---\n\na second", "---\n\nA first scene\n\n---\n\na second"),
            ("text\n\n---\n\nmore", "text\n\n---\n\nmore"),
        ] {
            assert_eq!(body(content), text, "{content:?}");
        }
    }
}
