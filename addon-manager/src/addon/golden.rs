//! Golden files of renderings, so that their changes show in a review.

/// Compares a text with the file of this name beside the add-on's sources; `UPDATE_GOLDEN=1` rewrites the file.
pub(super) fn compare(file: &str, text: &str) {
    let path = format!("{}/src/addon/{file}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        assert!(
            std::env::var_os("CI").is_none(),
            "UPDATE_GOLDEN is set, and CI too"
        );
        std::fs::write(&path, text).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        text,
        "UPDATE_GOLDEN=1 rewrites it"
    );
}
