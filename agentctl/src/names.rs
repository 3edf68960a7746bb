//! Suggestions for names that do not exist. Pure.

use std::fmt;

/// From here on two names are like each other, of 1.
const ALIKE: f64 = 0.8;

/// Those of the names that are not known.
pub fn missing(names: &[String], known: &[impl AsRef<str>]) -> Vec<String> {
    let is_known = |name: &&String| known.iter().any(|it| it.as_ref() == *name);
    names.iter().filter(|it| !is_known(it)).cloned().collect()
}

/// Names that do not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    names: Vec<String>,
    meant: Option<String>,
}

impl Unknown {
    /// These, of all that exist.
    pub fn new<'a>(names: Vec<String>, known: impl IntoIterator<Item = &'a str>) -> Self {
        let first = names.first().map_or("", String::as_str);
        let alike = known
            .into_iter()
            .map(|it| (strsim::jaro_winkler(first, it), it));
        let alike = alike.filter(|(how, _)| *how >= ALIKE);
        let meant = alike.max_by(|(one, _), (other, _)| one.total_cmp(other));
        Self {
            meant: meant.map(|(_, it)| it.to_owned()),
            names,
        }
    }

    /// This one, of all that exist.
    pub fn one<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        Self::new(vec![name.to_owned()], known)
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names.join(", "))?;
        match &self.meant {
            Some(meant) => write!(f, " (did you mean {meant}?)"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_name_is_suggested() {
        let known = ["paris", "berlin", "oslo-prod", "oslo-test"];
        for (typed, expected) in [
            ("pariss", "pariss (did you mean paris?)"),
            ("oslo-prd", "oslo-prd (did you mean oslo-prod?)"),
            ("tokyo", "tokyo"),
        ] {
            assert_eq!(Unknown::one(typed, known).to_string(), expected);
        }
        let several = Unknown::new(vec!["tokyo".to_owned(), "lima".to_owned()], []);
        assert_eq!(several.to_string(), "tokyo, lima");
    }
}
