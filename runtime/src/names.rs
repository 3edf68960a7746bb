//! Suggestions for names that do not exist. Pure.

/// From here on two names are like each other, of 1.
const ALIKE: f64 = 0.8;

/// Names that do not exist, and the one that was meant, if there is one like the first. Upper and lower case count as
/// the same.
pub fn with_suggestion<'a>(
    names: &[impl AsRef<str>],
    known: impl IntoIterator<Item = &'a str>,
) -> String {
    let names: Vec<_> = names.iter().map(AsRef::as_ref).collect();
    let first = names.first().copied().unwrap_or_default().to_lowercase();
    let likeness = known
        .into_iter()
        .map(|it| (strsim::jaro_winkler(&first, &it.to_lowercase()), it));
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
        let known = ["paris", "berlin", "oslo-prod", "oslo-test", "LOG_LEVEL"];
        for (typed, expected) in [
            ("pariss", "pariss (did you mean paris?)"),
            ("oslo-prd", "oslo-prd (did you mean oslo-prod?)"),
            ("logLevel", "logLevel (did you mean LOG_LEVEL?)"),
            ("tokyo", "tokyo"),
        ] {
            assert_eq!(with_suggestion(&[typed], known), expected);
        }
        assert_eq!(with_suggestion(&["tokyo", "lima"], []), "tokyo, lima");
    }
}
