//! Names of clusters and Applications that do not exist. Pure.

use runtime::names::with_suggestion;

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
