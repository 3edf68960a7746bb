//! The names of all tests, end-to-end tests included.

use std::{collections::BTreeSet, fs, path::Path};

/// Names of all functions behind a `#[test]`-like attribute, and of all end-to-end tests.
pub(crate) fn test_names() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = tests.parent().expect("tests/ lies in the workspace");
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)
            .expect("a folder of the tree")
            .flatten()
        {
            let path = entry.path();
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            if path.is_dir() && !hidden && entry.file_name() != "target" {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                collect(
                    &fs::read_to_string(&path).expect("a source file"),
                    &path,
                    &mut names,
                );
            }
        }
    }
    names
}

/// An end-to-end test is an `async fn` below `tests/e2e/`; any other test follows an attribute that ends in `test]`.
fn collect(source: &str, path: &Path, names: &mut BTreeSet<String>) {
    let e2e_test = path.components().any(|c| c.as_os_str() == "e2e");
    let mut expected = false;
    for line in source.lines().map(str::trim) {
        expected |= line.starts_with("#[") && (line.contains("test]") || line.contains("test("));
        let function = line
            .strip_prefix("pub(crate) ")
            .or_else(|| line.strip_prefix("pub "))
            .unwrap_or(line)
            .trim_start_matches("async ")
            .strip_prefix("fn ");
        if let Some(function) = function {
            if expected || (e2e_test && line.contains("async fn ")) {
                names.extend(function.split(['(', '<']).next().map(str::to_owned));
            }
            expected = false;
        }
    }
}
