//! Texts per second: the raw session on prepared tokens, beside the embedder's worker thread as
//! the service uses it.

use std::time::Instant;

use api::{EmbedScope, TextRole};
use node::embed::{Pool, Session};
use storage::model::id::TenantId;
use tests::installed_model;

use crate::work::label;

/// Measures both and prints their ratio.
pub async fn measure() {
    let (manifest, runtime) = installed_model();
    let texts: Vec<String> =
        (0..2_000).map(|n| format!("{} and is one of {n}", label(n))).collect();
    let mut session = Session::open(runtime, manifest).expect("a session");
    let worker = Session::open(runtime, manifest).expect("a session");
    let tokens: Vec<_> = texts.iter().map(|text| session.tokens(text).expect("tokens")).collect();
    let pool = Pool::start(manifest.model(), manifest.conventions.clone(), vec![Box::new(worker)]);
    let scope = EmbedScope { tenant: TenantId(1), key: None };
    let (mut raw, mut served) = (0.0, 0.0);
    // In turns, so that the noise of the machine is equal for both.
    for part in 0..10 {
        let range = part * 200..(part + 1) * 200;
        let started = Instant::now();
        for tokens in &tokens[range.clone()] {
            session.run(tokens).expect("a vector");
        }
        raw += started.elapsed().as_secs_f64();
        let started = Instant::now();
        let embedded = texts[range]
            .iter()
            .map(|text| pool.embed(scope.clone(), TextRole::Passage, text.clone()));
        for vector in futures::future::join_all(embedded).await {
            vector.expect("a vector");
        }
        served += started.elapsed().as_secs_f64();
    }
    let tokens: usize = tokens.iter().map(Vec::len).sum();
    println!(
        "embedding, one thread, {} tokens per text: raw session {:.0}/s, embedder {:.0}/s, ratio {:.3}",
        tokens / texts.len(),
        texts.len() as f64 / raw,
        texts.len() as f64 / served,
        raw / served,
    );
}
