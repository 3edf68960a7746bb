//! Tokens of agents: bytes, changed tokens, and tokens with another header or other claims under a signature of ours.

use std::sync::LazyLock;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use principal::admission::identity::{PeerCertificate, Thumbprint};
use principal::admission::tokens::{Announced, Holder, Purpose};
use principal::{ClusterName, JwtKey, Mode};
use rcgen::{CertificateParams, KeyPair};

/// The key is another one in every process, so an input never has a token itself: it changes those of this process.
struct Issued {
    key: JwtKey,
    bound_to: Thumbprint,
    holder: Holder,
    access: String,
    refresh: String,
}

static ISSUED: LazyLock<Issued> = LazyLock::new(|| {
    let (kind, size) = (&rcgen::PKCS_RSA_SHA512, rcgen::RsaKeySize::_2048);
    let pem = KeyPair::generate_rsa_for(kind, size)
        .expect("a key")
        .serialize_pem();
    let key = JwtKey::from_pem(pem.as_bytes()).expect("a signing key");
    let leaf = CertificateParams::default()
        .self_signed(&KeyPair::generate().expect("a key"))
        .expect("a certificate");
    let peer = PeerCertificate::from_chain(&[leaf.der().clone()]).expect("a certificate");
    let bound_to = peer.thumbprint;
    let holder = Holder {
        cluster: ClusterName::try_from("spoke1").expect("a name"),
        mode: Mode::Managed,
        announced: Announced::default(),
    };
    let issue = |purpose| {
        key.issue(purpose, &holder, bound_to, at(0))
            .expect("a token")
    };
    let (access, refresh) = (issue(Purpose::Access), issue(Purpose::Refresh));
    Issued {
        key,
        bound_to,
        holder,
        access,
        refresh,
    }
});

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).expect("a time")
}

pub(crate) fn check(input: &[u8]) {
    let Some((kind, rest)) = input.split_first() else {
        return;
    };
    let token = if kind & 1 == 0 {
        &ISSUED.access
    } else {
        &ISSUED.refresh
    };
    let mut parts = token.split('.');
    let mut part = || parts.next().unwrap_or_default();
    let (header, claims, signature) = (part(), part(), part());
    let encoded = URL_SAFE_NO_PAD.encode(rest);
    let presented = match kind / 2 % 5 {
        0 => rest.to_vec(),
        1 => changed(token, rest),
        2 => format!("{encoded}.{claims}.{signature}").into(),
        3 => format!("{header}.{encoded}.{signature}").into(),
        _ => format!("{header}.{claims}.{encoded}").into(),
    };
    if let Ok(presented) = str::from_utf8(&presented) {
        verified(presented);
    }
}

/// Only the very text of a token is accepted, for its purpose.
fn verified(presented: &str) {
    let Issued {
        key,
        bound_to,
        holder,
        access,
        refresh,
    } = &*ISSUED;
    for (purpose, issued) in [(Purpose::Access, access), (Purpose::Refresh, refresh)] {
        let verified = key.verify(presented, purpose, *bound_to, at(1));
        assert_eq!(verified.is_ok(), presented == issued, "{presented}");
        if let Ok(verified) = verified {
            assert_eq!(&verified.holder, holder);
            assert!(verified.expires > at(1));
        }
    }
    // an agent reads its own token without verification
    protocol::token::subject(presented);
    protocol::token::life(presented);
}

/// The token after changes of three bytes each: the place, and the new byte.
fn changed(token: &str, changes: &[u8]) -> Vec<u8> {
    let mut bytes = token.as_bytes().to_vec();
    for change in changes.chunks_exact(3) {
        let place = usize::from(u16::from_be_bytes([change[0], change[1]])) % bytes.len();
        bytes[place] = change[2];
    }
    bytes
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let claims = r#"{"iss":"argocd-agent-server","sub":"{\"clientID\":\"spoke2\",\"mode\":\"managed\"}","aud":["argocd-agent-server-access"],"exp":1900000000,"nbf":1,"iat":1,"jti":"1","cnf":{"x5t#S256":"x"}}"#;
    [
        (0, "a.b.c"),
        (2, ""),
        (2, "\0\x05A\0\x20b"),
        (3, "\x03\0."),
        (4, r#"{"typ":"JWT","alg":"RS512"}"#),
        (4, r#"{"alg":"none"}"#),
        (
            4,
            r#"{"alg":"HS256","kid":"1","jwk":{"kty":"oct","k":"AA"}}"#,
        ),
        (6, claims),
        (8, ""),
        (8, "signature"),
    ]
    .map(|(kind, rest)| [&[kind], rest.as_bytes()].concat())
    .to_vec()
}
