//! The image of the agent of a spoke. Pure.

use ocm::api::addon::{AddOnDeploymentConfigSpec, ImageMirror};

use super::Error;

/// The maximum length of a reference; no registry has longer ones.
const LONGEST: usize = 512;

/// The image of the configuration, or else the default, with image registries applied.
pub(super) fn image(config: &AddOnDeploymentConfigSpec, default: &str) -> Result<String, Error> {
    let given = config.variable("AGENT_IMAGE").unwrap_or_default();
    let image = if given.is_empty() { default } else { given };
    if !is_reference(image) {
        return Err(Error::Variable {
            name: "AGENT_IMAGE",
            value: image.to_owned(),
            wanted: "an image, such as quay.io/example/agent:v1",
        });
    }
    Ok(mirrored(image, &config.registries))
}

/// Whether it could be the reference of an image. Only the registry knows whether the image exists; this finds values
/// that are not references.
fn is_reference(image: &str) -> bool {
    let known = |it: char| it.is_ascii_alphanumeric() || ".-_/:@".contains(it);
    let ends = |it: char| it.is_ascii_alphanumeric();
    image.len() <= LONGEST
        && image.starts_with(ends)
        && image.ends_with(|it: char| ends(it) || it == '_')
        && image.chars().all(known)
        && !image.contains("//")
}

/// The image from the last mirror that matches, as in OCM's own framework.
pub(in crate::addon) fn mirrored(image: &str, mirrors: &[ImageMirror]) -> String {
    let replaced = mirrors
        .iter()
        .rev()
        .find_map(|ImageMirror { mirror, source }| {
            let (mirror, source) = (mirror.trim_end_matches('/'), source.trim_end_matches('/'));
            if source.is_empty() {
                let last = image.rsplit('/').next().unwrap_or(image);
                return Some(format!("{mirror}/{last}"));
            }
            let rest = image.strip_prefix(source)?;
            // `quay.io/a` must not fit `quay.io/ab`.
            (rest.is_empty() || rest.starts_with(['/', ':', '@']))
                .then(|| format!("{mirror}{rest}"))
        });
    replaced.unwrap_or_else(|| image.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addon::settings::tests::config;

    const DEFAULT: &str = "quay.io/ocm/agent:v1";

    fn mirror(source: &str, mirror: &str) -> ImageMirror {
        ImageMirror {
            source: source.to_owned(),
            mirror: mirror.to_owned(),
        }
    }

    fn with(image: &str, registries: Vec<ImageMirror>) -> AddOnDeploymentConfigSpec {
        AddOnDeploymentConfigSpec {
            registries,
            ..config(&[("AGENT_IMAGE", image)])
        }
    }

    #[test]
    fn the_last_mirror_that_fits_whole_parts_counts() {
        assert_eq!(mirrored(DEFAULT, &[]), DEFAULT);
        assert_eq!(mirrored(DEFAULT, &[mirror("quay.io/oc", "x")]), DEFAULT);
        let two = [mirror("quay.io/ocm/", "a/"), mirror("quay.io/ocm", "b")];
        assert_eq!(mirrored(DEFAULT, &two), "b/agent:v1");
        assert_eq!(
            mirrored(DEFAULT, &[mirror("", "r.local/m")]),
            "r.local/m/agent:v1"
        );
    }

    #[test]
    fn an_image_of_the_configuration_wins_and_mirrors_apply_to_it_too() {
        let image = |it: &AddOnDeploymentConfigSpec| image(it, DEFAULT).unwrap();
        assert_eq!(image(&AddOnDeploymentConfigSpec::default()), DEFAULT);
        assert_eq!(image(&with("", Vec::new())), DEFAULT);
        let next = "registry.local:5000/a_b/agent@sha256:0f";
        assert_eq!(image(&with(next, Vec::new())), next);
        let mirrors = vec![mirror("registry.local:5000", "m")];
        assert_eq!(image(&with(next, mirrors)), "m/a_b/agent@sha256:0f");
    }

    #[test]
    fn an_invalid_image_is_refused_with_the_variable() {
        let long = "a".repeat(513);
        for wrong in [
            "an agent",
            "https://quay.io/a",
            "/agent",
            "agent:",
            "-a",
            "${X}",
            &long,
        ] {
            let refused = image(&with(wrong, Vec::new()), DEFAULT).unwrap_err();
            assert!(refused.to_string().contains("AGENT_IMAGE"), "{refused}");
        }
    }
}
