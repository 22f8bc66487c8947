//! What spoils the memories of a tenant, and the remedy.

use storage::DefectCount;
use storage::model::memory::Defect;

use crate::prelude::*;
use crate::routes::consolidation::HygieneQuery;

/// Defects among the examined memories.
#[derive(Serialize, ToSchema)]
pub(crate) struct HygieneReport {
    /// Memories that this request examined, at most 5,000.
    examined: usize,
    defects: Vec<DefectView>,
    /// The next page begins with it as `cursor`: add the numbers. Null at the end.
    #[schema(required)]
    next_cursor: Option<MemoryIdText>,
}

/// A kind of defects.
#[derive(Serialize, ToSchema)]
struct DefectView {
    defect: DefectWord,
    count: usize,
    /// The first of them.
    examples: Vec<Example>,
    /// How to remedy it.
    command: &'static str,
}

/// A memory with a defect.
#[derive(Serialize, ToSchema)]
struct Example {
    id: MemoryIdText,
    /// The beginning of its text.
    label: String,
}

/// Examine memories for duplicates, echoes, contradictions and disuse.
#[utoipa::path(get, path = "/api/v1/admin/hygiene", tag = "analytics",
    params(HygieneQuery, ReadHeaders), responses((status = OK, body = HygieneReport), ReadErrors))]
pub(crate) async fn get_hygiene(
    AdminRead(session, freshness): AdminRead,
    ValidQuery(query): ValidQuery<HygieneQuery>,
) -> ApiResponse<HygieneReport> {
    let found = session.hygiene(query.cursor.map(|id| id.0), query.limit.get()).await?;
    let view = |(defect, DefectCount { count, examples })| DefectView {
        defect: OneOf(defect),
        count,
        examples: examples.into_iter().map(|(id, label)| Example { id: Id(id), label }).collect(),
        command: command(defect),
    };
    let defects = Defect::ALL.into_iter().zip(found.defects).map(view).collect();
    let next_cursor = found.next.map(Id);
    let body = HygieneReport { examined: found.examined, defects, next_cursor };
    Ok(Success::ok(freshness, body))
}

/// The remedy of a defect.
fn command(defect: Defect) -> &'static str {
    match defect {
        Defect::ExactDuplicate | Defect::NearDuplicate => {
            "GET /agent/consolidation/candidates, then POST /agent/consolidation/fold; for new ones \
             PATCH /settings/thermo {\"duplicates\": {\"on_duplicate\": \"merge\"}}"
        }
        Defect::Echo => {
            "GET /admin/hygiene?limit=1000 names them, POST /agent/nodes/bulk-delete \
             {\"ids\": […]} deletes them"
        }
        Defect::Contradicted => {
            "GET /agent/nodes?flagged=true, then POST /agent/nodes/{id}/supersede {\"by\": …} or \
             DELETE /agent/nodes/{id}"
        }
        Defect::NeverRecalled => {
            "GET /agent/nodes?sort=created_at&order=asc, then POST /agent/nodes/bulk-delete \
             {\"ids\": […]}"
        }
        Defect::Orphan => {
            "GET /admin/hygiene?limit=1000 names them, POST /agent/graph/relate connects one, \
             DELETE /agent/nodes/{id} deletes it"
        }
    }
}
