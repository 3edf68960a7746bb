//! Image registries. Pure.
//!
//! Registries of a configuration win over those in an annotation of the ManagedCluster. The cluster
//! itself may write that annotation, so it must not decide which images its host runs: in hosted mode
//! it does not count.

use serde::Deserialize;

use super::{Config, RenderError, Target};
use crate::{api::addon::ImageMirror, keys};

#[derive(Default, Deserialize)]
#[serde(default)]
struct Annotation {
    registries: Vec<ImageMirror>,
}

/// The registries to use on a cluster.
///
/// An unreadable annotation is an error and not ignored: without its mirror a cluster might pull images
/// from a registry that it must not use.
pub fn registries(config: &Config, target: Target<'_>) -> Result<Vec<ImageMirror>, RenderError> {
    let configured = config.deployment.as_ref().map(|it| &it.registries);
    if let Some(configured) = configured.filter(|registries| !registries.is_empty()) {
        return Ok(configured.clone());
    }
    if target.addon.hosting_cluster().is_some() {
        return Ok(Vec::new());
    }
    let annotations = target.cluster.metadata.annotations.as_ref();
    let text = annotations.and_then(|annotations| annotations.get(keys::IMAGE_REGISTRIES));
    let Some(text) = text else {
        return Ok(Vec::new());
    };
    let read = serde_json::from_str::<Annotation>(text);
    read.map(|read| read.registries)
        .map_err(|error| RenderError {
            message: format!(
                "the annotation {} on the ManagedCluster is invalid: {error}; correct or remove it",
                keys::IMAGE_REGISTRIES
            ),
        })
}

/// The image to use in place of `image`.
///
/// Of several registries that fit, the last wins. One without a source takes the last part of the
/// image's name.
pub fn mirrored(image: &str, registries: &[ImageMirror]) -> String {
    let changed = |registry: &ImageMirror| {
        let mirrored = mirror(image, registry)?;
        (mirrored != image).then_some(mirrored)
    };
    let last = registries.iter().rev().find_map(changed);
    last.unwrap_or_else(|| image.to_owned())
}

fn mirror(image: &str, registry: &ImageMirror) -> Option<String> {
    let one_less = |text: &str| text.strip_suffix('/').unwrap_or(text).to_owned();
    let (source, mirror) = (one_less(&registry.source), one_less(&registry.mirror));
    if source.is_empty() {
        let name = image.rsplit('/').next().unwrap_or(image);
        let slash = if mirror.is_empty() { "" } else { "/" };
        return Some(format!("{mirror}{slash}{name}"));
    }
    let rest = image.strip_prefix(&source)?;
    Some(format!("{mirror}{rest}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        api::{
            addon::{AddOnDeploymentConfigSpec, ManagedClusterAddOn},
            cluster::ManagedCluster,
        },
        name::ClusterName,
    };

    fn registry(source: &str, mirror: &str) -> ImageMirror {
        ImageMirror {
            source: source.to_owned(),
            mirror: mirror.to_owned(),
        }
    }

    #[test]
    fn images_are_mirrored_as_ocms_own_add_ons_do_it() {
        let quay = || registry("quay.io/ocm/", "mirror.example.com/");
        let cases = [
            (vec![], "quay.io/ocm/a:v1", "quay.io/ocm/a:v1"),
            (vec![quay()], "quay.io/ocm/a:v1", "mirror.example.com/a:v1"),
            (vec![quay()], "docker.io/a:v1", "docker.io/a:v1"),
            (
                vec![registry("", "m.io/x")],
                "quay.io/ocm/a@sha256:0",
                "m.io/x/a@sha256:0",
            ),
            (
                vec![registry("quay.io", "one"), quay()],
                "quay.io/ocm/a",
                "mirror.example.com/a",
            ),
            (
                vec![quay(), registry("other.io", "two")],
                "quay.io/ocm/a",
                "mirror.example.com/a",
            ),
        ];
        for (registries, image, wanted) in cases {
            assert_eq!(mirrored(image, &registries), wanted);
        }
    }

    fn name() -> ClusterName {
        ClusterName::new("c").unwrap()
    }

    /// The registries of a cluster with this annotation.
    fn found(
        config: &Config,
        annotation: Option<&str>,
        hosted: bool,
    ) -> Result<Vec<ImageMirror>, RenderError> {
        let name = name();
        let (mut cluster, mut addon) = (ManagedCluster::default(), ManagedClusterAddOn::default());
        let note = |key: &str, text: &str| Some([(key.to_owned(), text.to_owned())].into());
        if let Some(text) = annotation {
            cluster.metadata.annotations = note(keys::IMAGE_REGISTRIES, text);
        }
        if hosted {
            addon.metadata.annotations = note(keys::HOSTING_CLUSTER, "h");
        }
        let target = Target {
            name: &name,
            cluster: &cluster,
            addon: &addon,
        };
        registries(config, target)
    }

    #[test]
    fn configuration_overrides_annotation_and_bad_values_are_reported() {
        let none = Config::default();
        let text = Some(r#"{"registries":[{"source":"a","mirror":"b"}]}"#);
        assert_eq!(found(&none, None, false), Ok(vec![]));
        let refused = found(&none, Some("nonsense"), false).unwrap_err();
        assert!(
            refused.message.contains(keys::IMAGE_REGISTRIES),
            "{refused}"
        );
        assert_eq!(found(&none, text, false), Ok(vec![registry("a", "b")]));
        let config = Config {
            deployment: Some(AddOnDeploymentConfigSpec {
                registries: vec![registry("c", "d")],
                ..AddOnDeploymentConfigSpec::default()
            }),
            ..Config::default()
        };
        assert_eq!(found(&config, text, false), Ok(vec![registry("c", "d")]));
        assert_eq!(found(&config, text, true), Ok(vec![registry("c", "d")]));
    }

    #[test]
    fn the_annotation_of_a_cluster_does_not_count_on_its_host() {
        let text = Some(r#"{"registries":[{"source":"","mirror":"evil.example.com"}]}"#);
        assert_eq!(found(&Config::default(), text, true), Ok(vec![]));
    }

    proptest! {
        #[test]
        fn the_last_part_of_a_name_survives(
            image in "[a-z.]{1,8}(/[a-z]{1,5}){1,3}:[a-z0-9]{1,4}", source in "[a-z.]{0,3}/?",
            mirror in "[a-z.]{1,6}(/[a-z]{1,4})?/?"
        ) {
            let mirrored = mirrored(&image, &[registry(&source, &mirror)]);
            prop_assert_eq!(mirrored.rsplit('/').next(), image.rsplit('/').next());
        }
    }
}
