use super::*;
use crate::{admission::identity::PeerCertificate, testing::rsa_key};
use rustls_pki_types::CertificateDer;
use serde_json::{Value, json};
use std::sync::LazyLock;

use crate::testing::SIGNING_KEY as KEY;
static ONE: LazyLock<Thumbprint> = LazyLock::new(thumbprint);
static OTHER: LazyLock<Thumbprint> = LazyLock::new(thumbprint);

fn thumbprint() -> Thumbprint {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::default();
    let der = CertificateDer::from(params.self_signed(&key).unwrap().der().to_vec());
    PeerCertificate::from_chain(&[der]).unwrap().thumbprint
}

fn holder() -> Holder {
    let announced = Announced {
        version: "0.5.0".to_owned(),
        namespace: "argocd".to_owned(),
        capabilities: vec!["digest-resync".to_owned()],
    };
    Holder {
        cluster: ClusterName::try_from("spoke1").unwrap(),
        mode: Mode::Managed,
        announced,
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn payload(token: &str) -> Value {
    let part = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

#[test]
fn a_token_has_upstreams_form() {
    let token = KEY.issue(Purpose::Access, &holder(), *ONE, at(0)).unwrap();
    let header = jsonwebtoken::decode_header(&token).unwrap();
    assert_eq!(header.alg, Algorithm::RS512);
    let mut claims = payload(&token);
    assert!(uuid::Uuid::parse_str(claims["jti"].as_str().unwrap()).is_ok());
    claims
        .as_object_mut()
        .unwrap()
        .retain(|key, _| !["jti", "cnf", "agent"].contains(&key.as_str()));
    assert_eq!(
        claims,
        json!({
            "iss": "argocd-agent-server",
            "sub": r#"{"clientID":"spoke1","mode":"managed"}"#,
            "aud": ["argocd-agent-server-access"],
            "iat": 1_700_000_000, "nbf": 1_700_000_000, "exp": 1_700_000_300,
        })
    );
}

#[test]
fn a_token_is_good_with_its_own_certificate_only() {
    for purpose in [Purpose::Access, Purpose::Refresh] {
        let token = KEY.issue(purpose, &holder(), *ONE, at(0)).unwrap();
        let good = KEY.verify(&token, purpose, *ONE, at(1)).unwrap();
        assert_eq!(good.holder, holder());
        let stolen = KEY.verify(&token, purpose, *OTHER, at(1));
        assert!(matches!(stolen, Err(Worthless::OtherCertificate)));
    }
}

#[test]
fn one_kind_of_token_does_not_stand_in_for_the_other() {
    let access = KEY.issue(Purpose::Access, &holder(), *ONE, at(0)).unwrap();
    let refresh = KEY.issue(Purpose::Refresh, &holder(), *ONE, at(0)).unwrap();
    let crossed = [(access, Purpose::Refresh), (refresh, Purpose::Access)];
    for (token, purpose) in crossed {
        let verdict = KEY.verify(&token, purpose, *ONE, at(1));
        assert!(matches!(verdict, Err(Worthless::NotOurs(_))));
    }
}

#[test]
fn a_token_is_good_in_its_time_only() {
    let token = KEY.issue(Purpose::Access, &holder(), *ONE, at(0)).unwrap();
    assert!(KEY.verify(&token, Purpose::Access, *ONE, at(0)).is_ok());
    assert!(KEY.verify(&token, Purpose::Access, *ONE, at(299)).is_ok());
    for outside in [-1, 300, 1_000_000] {
        let verdict = KEY.verify(&token, Purpose::Access, *ONE, at(outside));
        assert!(matches!(verdict, Err(Worthless::Time)), "{outside}");
    }
}

#[test]
fn another_key_or_algorithm_is_not_ours() {
    let other = JwtKey::from_pem(rsa_key().as_bytes()).unwrap();
    let token = other
        .issue(Purpose::Access, &holder(), *ONE, at(0))
        .unwrap();
    let foreign = KEY.verify(&token, Purpose::Access, *ONE, at(1));
    assert!(matches!(foreign, Err(Worthless::NotOurs(_))));

    let claims = payload(&token);
    let unsigned = format!(
        "{}.{}.",
        URL_SAFE_NO_PAD.encode(r#"{"alg":"none","typ":"JWT"}"#),
        URL_SAFE_NO_PAD.encode(claims.to_string())
    );
    let rs256 = encode(&Header::new(Algorithm::RS256), &claims, &KEY.signing).unwrap();
    let hs512 = encode(
        &Header::new(Algorithm::HS512),
        &claims,
        &EncodingKey::from_secret(b"x"),
    )
    .unwrap();
    for forged in [unsigned, rs256, hs512, String::new(), "a.b.c".to_owned()] {
        let verdict = KEY.verify(&forged, Purpose::Access, *ONE, at(1));
        assert!(matches!(verdict, Err(Worthless::NotOurs(_))), "{forged}");
    }
}

#[test]
fn a_new_key_goes_on_accepting_the_older_one() {
    let newer = JwtKey::from_pem(rsa_key().as_bytes())
        .unwrap()
        .accepting(&KEY);
    let token = KEY.issue(Purpose::Refresh, &holder(), *ONE, at(0)).unwrap();
    assert!(newer.verify(&token, Purpose::Refresh, *ONE, at(1)).is_ok());
    let fresh = newer
        .issue(Purpose::Refresh, &holder(), *ONE, at(0))
        .unwrap();
    assert!(newer.verify(&fresh, Purpose::Refresh, *ONE, at(1)).is_ok());
    assert!(KEY.verify(&fresh, Purpose::Refresh, *ONE, at(1)).is_err());
}

#[test]
fn a_key_never_shows_itself() {
    let pem = rsa_key();
    let key = JwtKey::from_pem(pem.as_bytes()).unwrap();
    assert_eq!(format!("{key:?}"), "JwtKey { accepted: 1, .. }");
    let ec = rcgen::KeyPair::generate().unwrap().serialize_pem();
    for bad in ["", "no pem", ec.as_str()] {
        let error = JwtKey::from_pem(bad.as_bytes()).unwrap_err();
        assert!(!error.to_string().contains("BEGIN"));
    }
}

#[test]
fn a_token_for_visits_opens_one_cluster_with_one_certificate_for_a_day() {
    let cluster = ClusterName::try_from("spoke1").unwrap();
    let token = KEY.issue_visit(&cluster, *ONE, at(0)).unwrap();
    let claims = payload(&token);
    assert_eq!(claims["sub"], "spoke1", "as upstream has it");
    assert_eq!(claims["aud"], json!(["argocd-agent-server-resource-proxy"]));
    let visit = KEY.verify_visit(&token, *ONE, at(1)).unwrap();
    assert_eq!(
        visit,
        Visit {
            cluster,
            expires: at(24 * 3600)
        }
    );
    let stolen = KEY.verify_visit(&token, *OTHER, at(1));
    assert!(matches!(stolen, Err(Worthless::OtherCertificate)));
    for when in [at(-1), at(24 * 3600)] {
        let verdict = KEY.verify_visit(&token, *ONE, when);
        assert!(matches!(verdict, Err(Worthless::Time)), "{when}");
    }
}

#[test]
fn an_agents_token_opens_no_cluster_and_a_visitors_no_session() {
    let access = KEY.issue(Purpose::Access, &holder(), *ONE, at(0)).unwrap();
    let verdict = KEY.verify_visit(&access, *ONE, at(1));
    assert!(matches!(verdict, Err(Worthless::NotOurs(_))));
    let visit = KEY.issue_visit(&holder().cluster, *ONE, at(0)).unwrap();
    for purpose in [Purpose::Access, Purpose::Refresh] {
        let verdict = KEY.verify(&visit, purpose, *ONE, at(1));
        assert!(matches!(verdict, Err(Worthless::NotOurs(_))));
    }
    let other = JwtKey::from_pem(rsa_key().as_bytes()).unwrap();
    let forged = other.issue_visit(&holder().cluster, *ONE, at(0)).unwrap();
    let verdict = KEY.verify_visit(&forged, *ONE, at(1));
    assert!(matches!(verdict, Err(Worthless::NotOurs(_))));
}
