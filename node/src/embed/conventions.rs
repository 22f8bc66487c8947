//! What a model expects of texts, and what becomes of its vectors before they are stored.
//!
//! The vectors of some models share a large component: cosines of unrelated texts are about 0.8, and those
//! of related ones 0.9. Without the mean of many vectors they are about 0 and 0.5, as those of other
//! models (Mu and Viswanath, "All-but-the-Top", 2018). So all that compares cosines is alike for all models.

use api::{Embedding, TextRole};
use storage::model::score::Reading;
use storage::model::vector::{VectorFault, normalised};
use unicode_script::{Script, UnicodeScript};

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Conventions {
    query_prefix: String,
    passage_prefix: String,
    mean: Option<Vec<f32>>,
    /// Scripts that the model knows; `None` is all.
    scripts: Option<Vec<Script>>,
    /// The cosine from which a result alone is weak evidence of an answer.
    evidence_cosine: Option<f64>,
}

/// That of models without one in their manifest.
const EVIDENCE_COSINE: f64 = 0.5;

impl Conventions {
    /// Prefixes of queries and of passages, the mean of the model's vectors, and the names of scripts in
    /// Unicode, such as `Latin`.
    pub(super) fn new(
        [query_prefix, passage_prefix]: [String; 2],
        mean: Option<Vec<f32>>,
        scripts: Option<Vec<String>>,
        evidence_cosine: Option<f64>,
    ) -> Result<Self, String> {
        let script = |name: String| {
            Script::from_full_name(&name).ok_or_else(|| format!("{name} is no script of Unicode"))
        };
        let scripts = scripts.map(|names| names.into_iter().map(script).collect()).transpose()?;
        if evidence_cosine.is_some_and(|cosine| !(0.05..=1.0).contains(&cosine)) {
            return Err("evidence_cosine is from 0.05 to 1".into());
        }
        Ok(Self { query_prefix, passage_prefix, mean, scripts, evidence_cosine })
    }

    /// What comes before a text.
    pub fn prefix(&self, role: TextRole) -> &str {
        match role {
            TextRole::Query => &self.query_prefix,
            TextRole::Passage => &self.passage_prefix,
        }
    }

    /// A vector of the model as it is stored and compared.
    pub(super) fn centred(&self, vector: Embedding) -> Result<Embedding, VectorFault> {
        let Some(mean) = &self.mean else { return Ok(vector) };
        let mut vector = normalised(&vector)?;
        vector.iter_mut().zip(mean).for_each(|(component, mean)| *component -= mean);
        Ok(vector)
    }

    /// How the model reads a query.
    pub fn reading(&self, query: &str) -> Reading {
        let evidence_scale = EVIDENCE_COSINE / self.evidence_cosine.unwrap_or(EVIDENCE_COSINE);
        let Some(known) = &self.scripts else { return Reading { unreadable: 0.0, evidence_scale } };
        let letters = query.chars().filter(|letter| letter.is_alphabetic());
        let scripts: Vec<_> = letters.map(|letter| letter.script()).collect();
        let is_unknown = |script: &&Script| {
            !matches!(script, Script::Common | Script::Inherited) && !known.contains(script)
        };
        let unknown = scripts.iter().filter(is_unknown).count();
        Reading { unreadable: unknown as f64 / scripts.len().max(1) as f64, evidence_scale }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conventions(
        mean: Option<Vec<f32>>,
        script: Option<&str>,
        cosine: Option<f64>,
    ) -> Conventions {
        let scripts = script.map(|script| vec![script.into()]);
        Conventions::new(Default::default(), mean, scripts, cosine).unwrap()
    }

    #[test]
    fn letters_of_unknown_scripts_are_counted() {
        let latin = conventions(None, Some("Latin"), None);
        let share = |text| latin.reading(text).unreadable;
        assert_eq!([share("Füße at 8:30 🎉"), share("8080"), share("")], [0.0; 3]);
        assert_eq!([share("谁喜欢茶"), share("nginx 怎么配置一"), share("Кто?")], [1.0, 0.5, 1.0]);
        assert_eq!(conventions(None, None, None).reading("谁"), Reading::default(), "it knows all");
        let unknown = Some(vec!["Klingon".into()]);
        assert!(Conventions::new(Default::default(), None, unknown, None).is_err());
        assert_eq!(conventions(None, None, Some(0.25)).reading("a").evidence_scale, 2.0);
    }

    #[test]
    fn mean_is_subtracted_from_the_unit_vector() {
        let of = |mean| conventions(mean, None, None);
        assert_eq!(of(Some(vec![0.5, 0.5])).centred(vec![0.0, 8.0]), Ok(vec![-0.5, 0.5]));
        assert_eq!(of(None).centred(vec![6.0, 8.0]), Ok(vec![6.0, 8.0]));
    }
}
