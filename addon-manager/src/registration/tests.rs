use std::sync::LazyLock;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use rcgen::{CertificateParams, KeyPair};

use super::*;

static KEY: LazyLock<Arc<JwtKey>> = LazyLock::new(|| {
    let key = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA512, rcgen::RsaKeySize::_2048);
    Arc::new(JwtKey::from_pem(key.unwrap().serialize_pem().as_bytes()).unwrap())
});

fn cluster(name: &str) -> ClusterName {
    ClusterName::try_from(name).unwrap()
}

fn registration() -> SelfRegistration {
    let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        Ok::<_, std::io::Error>(http::Response::new(kube::client::Body::empty()))
    });
    let client = Client::new(service, "default");
    let jwt_key = watch::channel(Arc::clone(&KEY)).1;
    SelfRegistration {
        secrets: Api::namespaced(client, "argocd"),
        argocd_namespace: "argocd".to_owned(),
        resource_proxy: "proxy:9090".to_owned(),
        certificate: None,
        jwt_key,
        clock: Clock::system(),
    }
}

#[tokio::test]
async fn the_secret_is_labelled_and_records_the_mode() {
    let registration = registration();
    let body = registration.body(&cluster("spoke1"), Mode::Managed, &Access::default());
    assert_eq!(body["metadata"]["name"], "cluster-spoke1");
    let labels = &body["metadata"]["labels"];
    assert_eq!(
        labels["argocd-agent.argoproj-labs.io/self-registered-cluster"],
        "true"
    );
    assert_eq!(labels["argocd-agent.argoproj-labs.io/agent-name"], "spoke1");
    assert_eq!(body["metadata"]["annotations"][keys::MODE], "managed");
    for reserved in ["argocd", "kube-system"] {
        let refused = registration.make(&cluster(reserved), Mode::Managed).await;
        assert!(matches!(refused, Err(Error::Reserved(_))), "{reserved}");
    }
}

/// A Secret with a certificate, as an administrator creates it.
fn secret() -> Value {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::default().self_signed(&key).unwrap();
    json!({"metadata": {"name": "all"}, "data": {
        "ca.crt": base64(&certificate.pem()),
        "tls.crt": base64(&certificate.pem()),
        "tls.key": base64(&key.serialize_pem()),
    }})
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

fn certificate(secret: &Value) -> Option<Certificate> {
    Certificate::of(serde_json::from_value(secret.clone()).unwrap())
}

#[test]
fn self_registered_credential_is_renewed_at_half_life() {
    let (ours, now) = (certificate(&secret()).unwrap(), Timestamp::now());
    let access = ours.access(&cluster("a"), &KEY, now).unwrap();
    let is_good = |hours| {
        let then = now + SignedDuration::from_hours(hours);
        ours.is_in(&access, &cluster("a"), &KEY, then)
    };
    assert!(is_good(0) && is_good(11));
    assert!(!is_good(12) && !is_good(24) && !is_good(-1));
}

#[test]
fn foreign_token_in_cluster_secret_is_replaced() {
    let (ours, now) = (certificate(&secret()).unwrap(), Timestamp::now());
    let access = ours.access(&cluster("a"), &KEY, now).unwrap();
    assert!(!ours.is_in(&access, &cluster("b"), &KEY, now));
    let newer = certificate(&secret()).unwrap();
    assert!(!newer.is_in(&access, &cluster("a"), &KEY, now));
    assert!(!ours.is_in(&Access::default(), &cluster("a"), &KEY, now));
    for token in [None, Some("of-go".to_owned())] {
        let other = Access {
            bearer_token: token,
            ..access.clone()
        };
        assert!(!ours.is_in(&other, &cluster("a"), &KEY, now));
    }
}

#[test]
fn half_a_certificate_is_none() {
    for is_missing in ["ca.crt", "tls.crt", "tls.key"] {
        let mut secret = secret();
        secret["data"].as_object_mut().unwrap().remove(is_missing);
        assert!(certificate(&secret).is_none(), "{is_missing}");
    }
    let mut secret = secret();
    secret["data"]["tls.crt"] = base64("nonsense").into();
    assert!(certificate(&secret).is_none());
}
