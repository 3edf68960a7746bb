//! Suggestions for names that do not exist. Pure.

/// From here on two names are like each other, of 1.
const ALIKE: f64 = 0.8;

/// Those of the names that are not known.
pub fn missing(names: &[String], known: &[impl AsRef<str>]) -> Vec<String> {
    let is_known = |name: &&String| known.iter().any(|it| it.as_ref() == *name);
    names.iter().filter(|it| !is_known(it)).cloned().collect()
}

/// An error if there are missing names: these, and the known one that was meant.
pub fn none_missing(missing: &[String], known: &[String]) -> Result<(), String> {
    if missing.is_empty() {
        return Ok(());
    }
    Err(with_suggestion(missing, known.iter().map(String::as_str)))
}

/// Names that do not exist, and the one that was meant, if there is one like the first.
pub fn with_suggestion<'a>(
    names: &[impl AsRef<str>],
    known: impl IntoIterator<Item = &'a str>,
) -> String {
    let names: Vec<_> = names.iter().map(AsRef::as_ref).collect();
    let first = names.first().copied().unwrap_or_default();
    let likeness = known
        .into_iter()
        .map(|it| (strsim::jaro_winkler(first, it), it));
    let alike = likeness.filter(|(how, _)| *how >= ALIKE);
    let names = names.join(", ");
    match alike.max_by(|(one, _), (other, _)| one.total_cmp(other)) {
        Some((_, meant)) => format!("{names} (did you mean {meant}?)"),
        None => names,
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
            assert_eq!(with_suggestion(&[typed], known), expected);
        }
        assert_eq!(with_suggestion(&["tokyo", "lima"], []), "tokyo, lima");
    }
}
