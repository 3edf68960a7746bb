//! Variables that continue in further ones, since OCM limits each to 1,024 characters. Pure.

use std::collections::BTreeMap;

use ocm::api::addon::AddOnDeploymentConfigSpec;

use super::Error;

/// The variables that continue in `NAME_2`, `NAME_3` and so on.
const LONG: [&str; 2] = ["ARGOCD_CM", "ARGOCD_CMD_PARAMS"];

/// The largest number of parts, and of bytes in all of them.
const MOST: usize = 64;
const LONGEST: usize = 65_536;

/// Whether the name is that of a second or later part.
pub(super) fn is_further_part(name: &str) -> bool {
    let mut all = LONG.iter();
    all.any(|first| number(first, name).is_some_and(|it| it > 1))
}

/// The text of a variable and of its further parts, in the order of their numbers; none if all are absent or empty.
pub(super) fn variable(
    name: &'static str,
    config: &AddOnDeploymentConfigSpec,
) -> Result<Option<String>, Error> {
    let given = config.customized_variables.iter();
    let given = given.filter(|it| !it.value.is_empty());
    let parts: BTreeMap<usize, &str> = given
        .filter_map(|it| Some((number(name, &it.name)?, it.value.as_str())))
        .collect();
    let invalid = |problem: String| Err(Error::Settings { name, problem });
    if let Some(gap) = (1..=parts.len()).find(|number| !parts.contains_key(number)) {
        let part = if gap == 1 {
            name.to_owned()
        } else {
            format!("{name}_{gap}")
        };
        return invalid(format!(
            "{part} is missing or empty, and a later part is not"
        ));
    }
    let text: String = parts.into_values().collect();
    if text.len() > LONGEST {
        return invalid(format!("it has more than {LONGEST} bytes"));
    }
    Ok((!text.is_empty()).then_some(text))
}

/// The number of a part by its name; the first part has the name of the variable.
fn number(first: &str, name: &str) -> Option<usize> {
    if name == first {
        return Some(1);
    }
    let text = name.strip_prefix(first)?.strip_prefix('_')?;
    let number: usize = text.parse().ok()?;
    ((2..=MOST).contains(&number) && number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addon::settings::tests::config;

    fn of(variables: &[(&str, &str)]) -> Result<Option<String>, Error> {
        variable("ARGOCD_CM", &config(variables))
    }

    #[test]
    fn parts_are_joined_by_number_and_without_separators() {
        for (variables, expected) in [
            (&[][..], None),
            (&[("ARGOCD_CM", "")], None),
            (&[("ARGOCD_CM", "a")], Some("a")),
            (&[("ARGOCD_CM_2", "b"), ("ARGOCD_CM", "a")], Some("ab")),
            (
                &[("ARGOCD_CM", "a"), ("ARGOCD_CM_2", ""), ("MODE", "x")],
                Some("a"),
            ),
            (
                &[("ARGOCD_CM", "a"), ("ARGOCD_CMD_PARAMS_2", "x")],
                Some("a"),
            ),
        ] {
            assert_eq!(of(variables).unwrap().as_deref(), expected, "{variables:?}");
        }
        let names: Vec<_> = (2..=12).map(|it| format!("ARGOCD_CM_{it}")).collect();
        let values: Vec<_> = (2..=12).map(|it| format!("{it},")).collect();
        let mut all = vec![("ARGOCD_CM", "1,")];
        // In the order of texts, in which 10 comes before 2.
        all.extend(
            names
                .iter()
                .zip(&values)
                .map(|(name, value)| (name.as_str(), value.as_str())),
        );
        all.sort_unstable();
        let joined = of(&all).unwrap().unwrap();
        assert_eq!(joined, "1,2,3,4,5,6,7,8,9,10,11,12,");
    }

    #[test]
    fn a_gap_between_parts_is_refused_with_its_name() {
        for (variables, missing) in [
            (&[("ARGOCD_CM_2", "b")][..], "ARGOCD_CM is missing"),
            (
                &[("ARGOCD_CM", ""), ("ARGOCD_CM_2", "b")],
                "ARGOCD_CM is missing",
            ),
            (
                &[("ARGOCD_CM", "a"), ("ARGOCD_CM_3", "c")],
                "ARGOCD_CM_2 is missing",
            ),
            (
                &[("ARGOCD_CM", "a"), ("ARGOCD_CM_64", "z")],
                "ARGOCD_CM_2 is missing",
            ),
        ] {
            let message = of(variables).unwrap_err().to_string();
            assert!(message.contains(missing), "{message}");
        }
    }

    #[test]
    fn text_of_all_parts_is_limited() {
        let half = "a".repeat(LONGEST / 2);
        let both = [("ARGOCD_CM", half.as_str()), ("ARGOCD_CM_2", &half)];
        assert_eq!(of(&both).unwrap().unwrap().len(), LONGEST);
        let three = [both[0], both[1], ("ARGOCD_CM_3", "a")];
        assert!(of(&three).unwrap_err().to_string().contains("65536 bytes"));
    }

    #[test]
    fn only_canonical_numbers_are_parts() {
        for name in ["ARGOCD_CM_2", "ARGOCD_CM_64", "ARGOCD_CMD_PARAMS_2"] {
            assert!(is_further_part(name), "{name}");
        }
        for name in [
            "ARGOCD_CM",
            "ARGOCD_CM_",
            "ARGOCD_CM_0",
            "ARGOCD_CM_1",
            "ARGOCD_CM_02",
            "ARGOCD_CM_+2",
            "ARGOCD_CM_2 ",
            "ARGOCD_CM_65",
            "ARGOCD_CM_99999999999999999999",
            "ARGOCD_CM_two",
            "ARGOCD_CM_2_2",
            "ARGOCD_CM2",
            "MODE_2",
        ] {
            assert!(!is_further_part(name), "{name}");
        }
    }
}
