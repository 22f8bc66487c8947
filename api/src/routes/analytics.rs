//! Recall analytics: what searches found, the feedback on it, and suggestions for tuning.

use storage::model::analytics::{RecallStats, TypeStats};
use storage::model::duplicate::OnDuplicate;
use storage::model::thermo::Thermo;

use crate::prelude::*;

/// Feedback below which a type gets no suggestion.
const FEEDBACK_MIN: u64 = 10;
/// Searches below which the hit rate gets no suggestion.
const SEARCHES_MIN: u64 = 20;
/// Echoes of a type below which it gets no suggestion.
const ECHOES_MIN: u64 = 10;

/// Recalls, hit rate, and feedback.
#[derive(Serialize, ToSchema)]
pub(crate) struct RecallAnalytics {
    stats: Vec<TypeRecalls>,
    searches: u64,
    searches_with_results: u64,
    #[schema(required, minimum = 0, maximum = 1)]
    hit_rate: Option<f64>,
    /// Changes that the counts suggest.
    suggestions: Vec<String>,
    /// Those of them that change a setting.
    suggested_settings: Vec<SuggestedSetting>,
    period: Nullable<String>,
}

/// A setting that the counts suggest. `PATCH /settings/thermo` takes `{setting: value}`.
#[derive(Serialize, ToSchema)]
struct SuggestedSetting {
    setting: String,
    value: SuggestedValue,
    /// One of `suggestions`.
    reason: String,
}

#[derive(Serialize, ToSchema)]
#[serde(untagged)]
enum SuggestedValue {
    Number(f64),
    Word(&'static str),
}

/// A suggestion, and the setting that it changes.
struct Suggestion {
    text: String,
    setting: Option<(String, SuggestedValue)>,
}

/// Recalls and feedback of a type.
#[derive(Serialize, ToSchema)]
struct TypeRecalls {
    memory_type: MemoryTypeWord,
    total_recalls: u64,
    relevant_count: u64,
    irrelevant_count: u64,
    outdated_count: u64,
    wrong_count: u64,
    /// Memories that repeat what a search had just returned, stored or merged.
    echo_count: u64,
    #[schema(required, minimum = 0, maximum = 1)]
    relevance_ratio: Option<f64>,
    avg_heat_before: Nullable<f64>,
    avg_heat_after: Nullable<f64>,
}

/// Get recall patterns, hit rates and suggestions for tuning.
#[utoipa::path(get, path = "/api/v1/admin/recall-analytics", tag = "analytics", params(ReadHeaders),
    responses((status = OK, body = RecallAnalytics), ReadErrors))]
pub(crate) async fn get_recall_analytics(
    AdminRead(session, freshness): AdminRead,
) -> ApiResponse<RecallAnalytics> {
    recall_analytics(session, freshness).await
}

/// Get recall patterns, at the path of published clients.
#[utoipa::path(get, path = "/api/v1/analytics/recall", tag = "analytics", params(ReadHeaders),
    responses((status = OK, body = RecallAnalytics), ReadErrors))]
pub(crate) async fn get_recall_totals(
    ReaderRead(session, freshness): ReaderRead,
) -> ApiResponse<RecallAnalytics> {
    recall_analytics(session, freshness).await
}

async fn recall_analytics(session: Session, freshness: Freshness) -> ApiResponse<RecallAnalytics> {
    let (stats, tenant) = (session.recall_stats().await?, session.tenant().await?);
    let types = MemoryType::ALL.into_iter().zip(&*stats.types);
    let all = suggestions(&stats, &tenant.thermo);
    let suggestions = all.iter().map(|suggestion| suggestion.text.clone()).collect();
    let suggested_settings = all.into_iter().filter_map(|Suggestion { text, setting }| {
        let (setting, value) = setting?;
        Some(SuggestedSetting { setting, value, reason: text })
    });
    let body = RecallAnalytics {
        stats: types.map(|(name, of)| of_type(name, of)).collect(),
        searches: stats.searches,
        searches_with_results: stats.searches_with_results,
        hit_rate: ratio(stats.searches_with_results, stats.searches),
        suggestions,
        suggested_settings: suggested_settings.collect(),
        period: Some(format!("since {}", tenant.created_at)),
    };
    Ok(Success::ok(freshness, body))
}

fn of_type(memory_type: MemoryType, stats: &TypeStats) -> TypeRecalls {
    let average = |sum: f64| (stats.warmings > 0).then(|| rounded(sum / stats.warmings as f64));
    TypeRecalls {
        memory_type: OneOf(memory_type),
        total_recalls: stats.recalls,
        relevant_count: stats.relevant,
        irrelevant_count: stats.irrelevant,
        outdated_count: stats.outdated,
        wrong_count: stats.wrong,
        echo_count: stats.echoes,
        relevance_ratio: ratio(stats.relevant, feedback(stats)),
        avg_heat_before: average(stats.heat_before),
        avg_heat_after: average(stats.heat_after),
    }
}

fn feedback(stats: &TypeStats) -> u64 {
    stats.relevant + stats.irrelevant + stats.outdated + stats.wrong
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| rounded(part as f64 / whole as f64))
}

/// Changes that the counts suggest, with the settings as they are.
fn suggestions(stats: &RecallStats, thermo: &Thermo) -> Vec<Suggestion> {
    let mut suggestions = Vec::new();
    let (searches, found) = (stats.searches, stats.searches_with_results);
    if searches >= SEARCHES_MIN && found * 2 < searches {
        let empty = searches - found;
        let text = format!(
            "{empty} of {searches} searches found nothing: look at the namespaces and types that \
             they filter by, or search with tier all"
        );
        suggestions.push(Suggestion { text, setting: None });
    }
    for (memory_type, of_type) in MemoryType::ALL.into_iter().zip(&*stats.types) {
        suggestions.extend(feedback_suggestions(memory_type, of_type, thermo));
        let (echoes, on_duplicate) = (of_type.echoes, thermo.duplicates.on_duplicate);
        if echoes >= ECHOES_MIN && on_duplicate != OnDuplicate::Merge {
            let (name, now, merge) =
                (memory_type.name(), on_duplicate.name(), OnDuplicate::Merge.name());
            let text = format!(
                "{echoes} {name} memories repeat what a search had just returned: set \
                 duplicates.on_duplicate, now {now}, to {merge}"
            );
            let setting = ("duplicates.on_duplicate".to_owned(), SuggestedValue::Word(merge));
            suggestions.push(Suggestion { text, setting: Some(setting) });
        }
    }
    suggestions
}

/// What the feedback on the memories of a type suggests.
fn feedback_suggestions(
    memory_type: MemoryType,
    stats: &TypeStats,
    thermo: &Thermo,
) -> Vec<Suggestion> {
    let (name, all) = (memory_type.name(), feedback(stats));
    let half_life = thermo.profile(memory_type).half_life_seconds;
    let (shorter, setting) = (half_life / 2.0, format!("decay_profiles.{name}.half_life"));
    let shorten = format!("shorten {setting} from {half_life} to some {shorter} seconds");
    let weight = thermo.recall.heat_weight;
    let lower = format!("lower recall.heat_weight, now {weight}, so that similarity counts more");
    let lower_to = ("recall.heat_weight".to_owned(), SuggestedValue::Number(weight / 2.0));
    let review = "review what GET /agent/nodes?flagged=true lists".to_owned();
    let advice = [
        (stats.outdated, 3, "outdated", shorten, Some((setting, SuggestedValue::Number(shorter)))),
        (stats.irrelevant, 2, "irrelevant", lower, Some(lower_to)),
        (stats.wrong, 4, "wrong", review, None),
    ];
    let due =
        advice.into_iter().filter(|(count, parts, ..)| all >= FEEDBACK_MIN && count * parts > all);
    let suggestion = |(count, _, signal, advice, setting)| {
        let text = format!("{count} of {all} signals on {name} memories are `{signal}`: {advice}");
        Suggestion { text, setting }
    };
    due.map(suggestion).collect()
}
