//! What a model expects of texts, and what becomes of its vectors before they are stored.
//!
//! The vectors of some models share a large component: cosines of unrelated texts are about 0.8, and those
//! of related ones 0.9. Without the mean of many vectors they are about 0 and 0.5, as those of other
//! models (Mu and Viswanath, "All-but-the-Top", 2018). So all that compares cosines is alike for all models.

use api::{Embedding, TextRole};
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
}

impl Conventions {
    /// Prefixes of queries and of passages, the mean of the model's vectors, and the names of scripts in
    /// Unicode, such as `Latin`.
    pub(super) fn new(
        [query_prefix, passage_prefix]: [String; 2],
        mean: Option<Vec<f32>>,
        scripts: Option<Vec<String>>,
    ) -> Result<Self, String> {
        let script = |name: String| {
            Script::from_full_name(&name).ok_or_else(|| format!("{name} is no script of Unicode"))
        };
        let scripts = scripts.map(|names| names.into_iter().map(script).collect()).transpose()?;
        Ok(Self { query_prefix, passage_prefix, mean, scripts })
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

    /// The share of a text's letters whose script the model knows, from 0 to 1.
    pub fn known_share(&self, text: &str) -> f64 {
        let Some(known) = &self.scripts else { return 1.0 };
        let letters = text.chars().filter(|letter| letter.is_alphabetic());
        let scripts: Vec<_> = letters.map(|letter| letter.script()).collect();
        let is_known = |script: &&Script| {
            matches!(script, Script::Common | Script::Inherited) || known.contains(script)
        };
        match scripts.len() {
            0 => 1.0,
            all => scripts.iter().filter(is_known).count() as f64 / all as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_known_scripts_are_counted() {
        let latin =
            Conventions::new([const { String::new() }; 2], None, Some(vec!["Latin".into()]));
        let share = |text| latin.as_ref().unwrap().known_share(text);
        assert_eq!([share("Füße at 8:30 🎉"), share("8080"), share("")], [1.0; 3]);
        assert_eq!([share("谁喜欢茶"), share("nginx 怎么配置一"), share("Кто?")], [0.0, 0.5, 0.0]);
        assert_eq!(Conventions::default().known_share("谁"), 1.0, "it knows all");
        assert!(Conventions::new(Default::default(), None, Some(vec!["Klingon".into()])).is_err());
    }

    #[test]
    fn mean_is_subtracted_from_the_unit_vector() {
        let of = |mean| Conventions::new(Default::default(), mean, None).unwrap();
        assert_eq!(of(Some(vec![0.5, 0.0])).centred(vec![6.0, 8.0]), Ok(vec![0.1, 0.8]));
        assert_eq!(of(None).centred(vec![6.0, 8.0]), Ok(vec![6.0, 8.0]));
    }
}
