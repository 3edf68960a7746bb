//! The forward proxy of a cluster, and further certificates to trust, for the programs of Argo CD that reach Git and
//! registries. Pure.

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::{addon::manifests::Proxy, keys::PROXY_CA_DIGEST};

/// The programs that use the proxy. Redis, and the setup of its password, connect within the cluster only.
const PROGRAMS: [&str; 2] = ["argocd-application-controller", "argocd-repo-server"];

/// The destinations within the cluster: Argo CD's own programs, and the cluster's API, which clients reach by its address.
/// The kubelet replaces the variable.
const WITHIN: [&str; 6] = [
    "argocd-redis",
    "argocd-repo-server",
    "kubernetes.default.svc",
    ".svc",
    ".cluster.local",
    "$(KUBERNETES_SERVICE_HOST)",
];

/// The `ConfigMap` with the proxy's certificates. The name is fixed: one that is kept is replaced, not left behind.
const CA_MAP: &str = "argocd-agent-addon-proxy-ca";
/// The volume with the proxy's certificates, and the container that adds them to those of the image.
const CA: &str = "proxy-ca";
/// The volume with all of them.
const TRUST: &str = "proxy-trust";
const BUNDLE: &str = "/proxy-trust/ca.crt";

/// Go and git replace the certificates of the image with those of their variables, so the bundle has both. Images of
/// Debian and Ubuntu have the first file, those of Red Hat the second.
const MERGE: &str = "cat /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt \
                     /proxy-ca/ca.crt > /proxy-trust/ca.crt 2> /dev/null; test -s /proxy-trust/ca.crt";

/// Whether there is a proxy.
const fn is_set(proxy: &Proxy) -> bool {
    !proxy.http.is_empty() || !proxy.https.is_empty()
}

/// Whether Argo CD needs further certificates: those of the proxy, or of servers that it reaches without one.
pub(super) const fn has_ca(proxy: &Proxy) -> bool {
    !proxy.ca.is_empty()
}

/// Sets the proxy and the certificates in a workload of Argo CD that uses them; other objects stay unchanged.
pub(super) fn configure(object: &mut Value, proxy: &Proxy) {
    let with_ca = has_ca(proxy);
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    let unused = !is_set(proxy) && !with_ca;
    if unused || name.is_none_or(|name| !PROGRAMS.contains(&name)) {
        return;
    }
    let pod = object.pointer_mut("/spec/template/spec");
    let Some(pod) = pod.and_then(Value::as_object_mut) else {
        return;
    };
    let container = pod.get_mut("containers").and_then(|all| all.get_mut(0));
    let Some(container) = container.and_then(Value::as_object_mut) else {
        return;
    };
    add(container, "env", variables(proxy));
    if !with_ca {
        return;
    }
    let mount = json!({ "name": TRUST, "mountPath": "/proxy-trust", "readOnly": true });
    add(container, "volumeMounts", [mount]);
    let merges = merging(container);
    add(pod, "initContainers", [merges]);
    let volumes = [
        json!({ "name": CA, "configMap": { "name": CA_MAP } }),
        json!({ "name": TRUST, "emptyDir": {} }),
    ];
    add(pod, "volumes", volumes);
    // Changed certificates restart the Pod.
    let digest = hex::encode(Sha256::digest(&proxy.ca));
    let marks = json!({ "annotations": { PROXY_CA_DIGEST: digest } });
    argocd::patch::merge(
        object,
        &json!({ "spec": { "template": { "metadata": marks } } }),
    );
}

/// The variables of a program that uses the proxy, or trusts further certificates.
fn variables(proxy: &Proxy) -> Vec<Value> {
    let except: Vec<&str> = Some(proxy.except.as_str())
        .filter(|except| !except.is_empty())
        .into_iter()
        .chain(WITHIN)
        .filter(|_| is_set(proxy))
        .collect();
    let except = except.join(",");
    let bundle = if has_ca(proxy) { BUNDLE } else { "" };
    let all = [
        ("HTTP_PROXY", proxy.http.as_str()),
        // Git's HTTP client reads only this one.
        ("http_proxy", proxy.http.as_str()),
        ("HTTPS_PROXY", proxy.https.as_str()),
        ("NO_PROXY", except.as_str()),
        ("SSL_CERT_FILE", bundle),
        ("GIT_SSL_CAINFO", bundle),
        ("GIT_PROXY_SSL_CAINFO", bundle),
    ];
    let set = all.into_iter().filter(|(_, value)| !value.is_empty());
    set.map(|(name, value)| json!({ "name": name, "value": value }))
        .collect()
}

/// The container that makes the bundle, like the program's own: every image with git has these commands.
fn merging(program: &Map<String, Value>) -> Value {
    let same = |field: &str| program.get(field).cloned().unwrap_or_default();
    json!({
        "name": CA,
        "image": same("image"),
        "imagePullPolicy": same("imagePullPolicy"),
        "command": ["sh", "-c", MERGE],
        "securityContext": same("securityContext"),
        "resources": same("resources"),
        "volumeMounts": [
            { "name": CA, "mountPath": "/proxy-ca", "readOnly": true },
            { "name": TRUST, "mountPath": "/proxy-trust" },
        ],
    })
}

/// Appends to a list of the map, which may be missing.
fn add(map: &mut Map<String, Value>, list: &str, items: impl IntoIterator<Item = Value>) {
    let list = map.entry(list).or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut() {
        list.extend(items);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(ca: &str) -> Proxy {
        Proxy {
            http: "http://proxy:3128".to_owned(),
            https: "http://proxy:3129".to_owned(),
            except: "10.0.0.0/8,.corp".to_owned(),
            ca: ca.to_owned(),
        }
    }

    fn workload(name: &str) -> Value {
        json!({
            "kind": "Deployment", "metadata": { "name": name },
            "spec": { "template": { "spec": { "containers": [{
                "name": name, "image": "argocd:v3", "imagePullPolicy": "IfNotPresent",
                "securityContext": { "runAsNonRoot": true }, "resources": { "requests": { "cpu": "1m" } },
                "env": [{ "name": "REDIS_PASSWORD", "value": "x" }],
            }] } } },
        })
    }

    fn configured(name: &str, proxy: &Proxy) -> Value {
        let mut object = workload(name);
        configure(&mut object, proxy);
        object["spec"]["template"]["spec"].take()
    }

    fn env<'a>(pod: &'a Value, name: &str) -> Option<&'a str> {
        let mut all = pod["containers"][0]["env"].as_array()?.iter();
        all.find(|it| it["name"] == name)?["value"].as_str()
    }

    #[test]
    fn programs_use_the_proxy_but_not_within_the_cluster() {
        for name in PROGRAMS {
            let pod = configured(name, &proxy(""));
            assert_eq!(env(&pod, "HTTP_PROXY"), Some("http://proxy:3128"));
            assert_eq!(env(&pod, "http_proxy"), Some("http://proxy:3128"));
            assert_eq!(env(&pod, "HTTPS_PROXY"), Some("http://proxy:3129"));
            let within = "argocd-redis,argocd-repo-server,kubernetes.default.svc,.svc,.cluster.local,\
                          $(KUBERNETES_SERVICE_HOST)";
            let expected = format!("10.0.0.0/8,.corp,{within}");
            assert_eq!(env(&pod, "NO_PROXY"), Some(expected.as_str()));
            assert_eq!(env(&pod, "REDIS_PASSWORD"), Some("x"));
            assert_eq!(env(&pod, "SSL_CERT_FILE"), None);
            assert_eq!(pod["initContainers"], Value::Null);
            let no_exceptions = Proxy {
                except: String::new(),
                ..proxy("")
            };
            let pod = configured(name, &no_exceptions);
            assert_eq!(env(&pod, "NO_PROXY"), Some(within));
        }
    }

    #[test]
    fn unset_proxies_and_other_objects_change_nothing() {
        let none = Proxy {
            except: ".svc".to_owned(),
            ..Proxy::default()
        };
        let unchanged = |name: &str| workload(name)["spec"]["template"]["spec"].take();
        for name in PROGRAMS {
            assert_eq!(configured(name, &none), unchanged(name));
        }
        assert_eq!(
            configured("argocd-redis", &proxy("PEM")),
            unchanged("argocd-redis")
        );
        for odd in [json!({}), json!({ "metadata": { "name": PROGRAMS[0] } })] {
            let mut object = odd.clone();
            configure(&mut object, &proxy("PEM"));
            assert_eq!(object, odd);
        }
    }

    #[test]
    fn proxy_certificates_are_added_to_those_of_the_image() {
        let pod = configured("argocd-repo-server", &proxy("PEM"));
        for variable in ["SSL_CERT_FILE", "GIT_SSL_CAINFO", "GIT_PROXY_SSL_CAINFO"] {
            assert_eq!(env(&pod, variable), Some(BUNDLE));
        }
        let merging = &pod["initContainers"][0];
        assert_eq!(merging["image"], "argocd:v3");
        assert_eq!(merging["securityContext"], json!({ "runAsNonRoot": true }));
        assert_eq!(merging["resources"]["requests"]["cpu"], "1m");
        let script = merging["command"][2].as_str().unwrap();
        for file in [
            "/etc/ssl/certs/ca-certificates.crt",
            "/proxy-ca/ca.crt",
            BUNDLE,
        ] {
            assert!(script.contains(file), "{script}");
        }
        assert_eq!(pod["volumes"][0]["configMap"]["name"], CA_MAP);
        let mounted = |container: &Value, name: &str| {
            let mut mounts = container["volumeMounts"].as_array().unwrap().iter();
            mounts.any(|it| it["name"] == name)
        };
        assert!(mounted(merging, CA) && mounted(merging, TRUST));
        assert!(mounted(&pod["containers"][0], TRUST));
    }

    /// For Git and registries with certificates of a private CA.
    #[test]
    fn certificates_without_a_proxy_are_trusted_all_the_same() {
        let private = Proxy {
            except: ".svc".to_owned(),
            ca: "PEM".to_owned(),
            ..Proxy::default()
        };
        for name in PROGRAMS {
            let pod = configured(name, &private);
            assert_eq!(env(&pod, "SSL_CERT_FILE"), Some(BUNDLE));
            assert_eq!(env(&pod, "GIT_SSL_CAINFO"), Some(BUNDLE));
            for variable in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "NO_PROXY"] {
                assert_eq!(env(&pod, variable), None);
            }
            assert_eq!(pod["initContainers"][0]["name"], CA);
        }
    }

    #[test]
    fn changed_certificates_restart_the_pods_and_keep_the_config_map() {
        let template = |ca: &str| {
            let mut object = workload("argocd-repo-server");
            configure(&mut object, &proxy(ca));
            object["spec"]["template"].take()
        };
        let [without, first, second] = ["", "PEM", "PEM 2"].map(template);
        let digest = |it: &Value| it["metadata"]["annotations"][PROXY_CA_DIGEST].clone();
        assert_eq!(digest(&without), Value::Null);
        assert!(digest(&first).is_string());
        assert_ne!(digest(&first), digest(&second));
        assert_eq!(first["spec"], second["spec"]);
    }
}
