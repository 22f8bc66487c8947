//! Texts whose vectors tell whether a model is that of the cluster. An id says which files or which name a
//! model has. What an endpoint runs under a name may change, and a CPU may compute otherwise.

use storage::model::cluster::Model;

/// The texts: two that people write, and one that programs do.
pub(super) const CANARIES: [&str; 3] = [
    "The user prefers short answers, and asked for them twice.",
    "用户每天早上喝茶，然后骑自行车去上班。",
    "POST /orders returned 503 after 30 s: upstream timed out (attempt 3 of 3)",
];

/// The least cosine of a canary to that of the cluster. Other orders of sums change it by less than 1e-5, another
/// model to 0.9 or less.
const COSINE_MIN: f32 = 0.999;

/// Compares the canaries of a model with those that the cluster has of it.
///
/// # Errors
/// A cosine is too low.
pub(super) fn check_canaries(stored: &Model, found: &Model) -> Result<(), String> {
    for (stored_vector, vector) in stored.canaries.iter().zip(&found.canaries) {
        let cosine = stored_vector.cosine(vector).unwrap_or(0.0);
        if cosine < COSINE_MIN {
            return Err(format!(
                "{} computes other vectors than those of the memories: the cosine of a text to itself \
                 is {cosine:.4}, at least {COSINE_MIN} is expected. Run the model that the memories \
                 were embedded by, or change the model of the cluster",
                found.name
            ));
        }
    }
    Ok(())
}
