//! Which version of the add-on API a hub serves.

use kube::Client;

use super::Error;
use crate::api::addon::Version;

/// Finds out which version of the add-on API the hub serves.
///
/// A version counts only if both kinds are in it: configurations are served as v1beta1 by hubs
/// whose add-ons are not.
pub async fn discover(client: &Client) -> Result<Version, Error> {
    for version in [Version::V1Beta1, Version::V1Alpha1] {
        let served = match client
            .list_api_group_resources(&version.api_version())
            .await
        {
            Ok(served) => served.resources,
            Err(error) if is_absent(&error) => continue,
            Err(source) => return Err(Error::Discover(Box::new(source))),
        };
        let has = |plural: &str| served.iter().any(|resource| resource.name == plural);
        if has("managedclusteraddons") && has("clustermanagementaddons") {
            return Ok(version);
        }
    }
    Err(Error::NoAddonApi)
}

/// For a version that it does not serve the API server returns a bare `404 page not found` without a
/// `Status`, so only the code counts.
fn is_absent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404 || status.is_not_found())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};
    use tower::service_fn;

    use super::*;

    /// A hub that serves these kinds in these versions, and bare 404s besides.
    fn hub(served: &'static [(&'static str, &'static [&'static str])]) -> Client {
        let answer = move |request: Request<Body>| async move {
            let path = request.uri().path().to_owned();
            let found = served.iter().find(|(version, _)| path.ends_with(version));
            let response = match found {
                Some((version, kinds)) => Response::new(list(version, kinds)),
                None => Response::builder()
                    .status(404)
                    .body("404 page not found\n".as_bytes().to_vec().into())
                    .unwrap(),
            };
            Ok::<_, Infallible>(response)
        };
        Client::new(service_fn(answer), "default")
    }

    fn list(version: &str, kinds: &[&str]) -> Body {
        let resource = |plural: &&str| -> Value {
            json!({ "name": plural, "singularName": "", "namespaced": true, "kind": "K",
                    "verbs": ["get"] })
        };
        let list = json!({
            "kind": "APIResourceList", "apiVersion": "v1",
            "groupVersion": format!("addon.open-cluster-management.io/{version}"),
            "resources": kinds.iter().map(resource).collect::<Vec<_>>(),
        });
        list.to_string().into_bytes().into()
    }

    const KINDS: &[&str] = &["managedclusteraddons", "clustermanagementaddons"];

    #[tokio::test]
    async fn the_newest_version_with_both_kinds_is_discovered() {
        let old = hub(&[("v1alpha1", KINDS)]);
        assert_eq!(discover(&old).await.unwrap(), Version::V1Alpha1);
        let half = hub(&[
            ("v1alpha1", KINDS),
            ("v1beta1", &["addondeploymentconfigs"]),
        ]);
        assert_eq!(discover(&half).await.unwrap(), Version::V1Alpha1);
        let new = hub(&[("v1alpha1", KINDS), ("v1beta1", KINDS)]);
        assert_eq!(discover(&new).await.unwrap(), Version::V1Beta1);
    }

    #[tokio::test]
    async fn a_hub_without_ocm_is_reported_as_such() {
        let error = discover(&hub(&[])).await.unwrap_err();
        assert!(matches!(error, Error::NoAddonApi), "{error}");
    }
}
