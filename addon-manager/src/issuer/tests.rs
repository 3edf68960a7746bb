use std::convert::Infallible;

use http::{Request, Response};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Client, client::Body};
use serde_json::{Value, json};

use super::*;

/// An issuer with a hub where only this Secret exists.
fn issuer(ca: Value) -> Issuer {
    let answer = move |request: Request<Body>| {
        let is_ca = request.uri().path().ends_with(CA_SECRET);
        let gone = json!({ "status": "Failure", "reason": "NotFound", "code": 404 });
        let (status, body) = if is_ca { (200, &ca) } else { (404, &gone) };
        let body = Body::from(body.to_string().into_bytes());
        let response = Response::builder().status(status).body(body).unwrap();
        std::future::ready(Ok::<_, Infallible>(response))
    };
    let client = Client::new(tower::service_fn(answer), "ours");
    Issuer {
        secrets: Secrets::new(client, "ours"),
        clock: Clock::system(),
        names: watch::channel(BTreeSet::new()).1,
        agents: watch::channel(None).1,
        written: watch::channel(0).1,
        authority: watch::channel(None).0,
        certificates: watch::channel(Arc::default()).0,
        metrics: Metrics::default(),
    }
}

#[tokio::test]
async fn an_unusable_ca_is_reported_with_the_cause_and_not_replaced() {
    let now = Timestamp::now();
    let [known, other] = [(); 2].map(|()| make::authority(now).unwrap());
    let data = [("tls.crt", &known.certificate), ("tls.key", &other.key)];
    let data = data.map(|(key, text)| (key.to_owned(), ByteString(text.clone().into_bytes())));
    let secret = Secret {
        data: Some(data.into()),
        ..Secret::default()
    };
    let issuer = issuer(json!(secret));
    let known = Some(Arc::new(known));
    issuer.authority.send_replace(known.clone());
    let error = issuer.round(BTreeSet::new(), None, now).await.unwrap_err();
    let troubles = issuer.certificates.borrow().troubles.clone();
    assert_eq!(troubles, [error.to_string()]);
    let cause = "Secret argocd-agent-ca is not usable (tls.key: the CA's key does not belong to its certificate)";
    let step = "; repair it. Do not delete it: with another CA every agent needs a new certificate";
    assert_eq!(troubles, [format!("{cause}{step}")]);
    assert_eq!(*issuer.authority.borrow(), known);
}
