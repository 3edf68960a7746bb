use super::*;
use crate::testing::{Authority, Leaf};

const UID: &str = "principal-uid";

struct Scene {
    authority: Authority,
    proxy: PeerCertificate,
    nonces: Nonces,
    material: Material,
    now: Timestamp,
}

fn scene() -> Scene {
    let authority = Authority::new();
    Scene {
        proxy: authority.client("proxy").peer_certificate(),
        material: authority.server().material(&authority),
        authority,
        nonces: Nonces::new(),
        now: Timestamp::now(),
    }
}

impl Scene {
    fn judge(&self, proof: &Proof, at: Timestamp) -> Result<Arc<PeerCertificate>, Refused> {
        self.judge_from(proof, &self.proxy, at)
    }

    fn judge_from(
        &self,
        proof: &Proof,
        proxy: &PeerCertificate,
        now: Timestamp,
    ) -> Result<Arc<PeerCertificate>, Refused> {
        let judge = Judge {
            nonces: &self.nonces,
            material: &self.material,
            principal_uid: UID,
            now,
        };
        judge.judge(proof, proxy)
    }

    fn nonce(&self) -> Bytes {
        self.nonces.give(self.proxy.thumbprint, self.now).unwrap()
    }

    /// The proof of an agent with this certificate.
    fn proof(&self, leaf: &Leaf) -> Proof {
        prove(
            &leaf.material(&self.authority),
            "localhost",
            UID,
            self.nonce(),
        )
    }
}

fn prove(ours: &Material, server_name: &str, uid: &str, nonce: Bytes) -> Proof {
    let identity = ours.identity.as_ref().unwrap();
    let signed = identity
        .sign(&proof::signed(server_name, uid, &nonce))
        .unwrap();
    let chain = identity.chain().iter();
    Proof {
        chain: chain.map(|der| Bytes::copy_from_slice(der)).collect(),
        scheme: u32::from(signed.scheme),
        signature: signed.bytes.into(),
        server_name: server_name.to_owned(),
        nonce,
    }
}

#[test]
fn key_of_a_trusted_certificate_proves_its_identity() {
    let scene = scene();
    let leaf = scene.authority.agent("a");
    let proved = scene.judge(&scene.proof(&leaf), scene.now).unwrap();
    assert_eq!(*proved, leaf.peer_certificate());
}

#[test]
fn a_proof_counts_once() {
    let scene = scene();
    let proof = scene.proof(&scene.authority.agent("a"));
    assert!(scene.judge(&proof, scene.now).is_ok());
    assert_eq!(
        scene.judge(&proof, scene.now).unwrap_err(),
        Refused::Replayed
    );
}

#[test]
fn a_wrong_proof_does_not_use_up_the_nonce_of_the_right_one() {
    let scene = scene();
    let right = scene.proof(&scene.authority.agent("a"));
    let wrong = Proof {
        signature: Bytes::from_static(b"wrong"),
        ..right.clone()
    };
    assert_eq!(
        scene.judge(&wrong, scene.now).unwrap_err(),
        Refused::Signature
    );
    assert!(scene.judge(&right, scene.now).is_ok());
}

#[test]
fn a_nonce_is_good_for_a_minute_and_then_forgotten() {
    let scene = scene();
    let (first, second) = (
        scene.proof(&scene.authority.agent("a")),
        scene.proof(&scene.authority.agent("a")),
    );
    let later = scene.now + Duration::from_secs(61);
    assert!(scene.judge(&first, scene.now).is_ok());
    assert_eq!(scene.judge(&second, later).unwrap_err(), Refused::Late);
    let third = scene.nonces.give(scene.proxy.thumbprint, later).unwrap();
    let ours = scene.authority.agent("a").material(&scene.authority);
    assert!(
        scene
            .judge(&prove(&ours, "localhost", UID, third), later)
            .is_ok()
    );
    assert_eq!(scene.nonces.used.lock().len(), 1);
}

#[test]
fn a_proof_for_another_door_opens_nothing() {
    let scene = scene();
    let leaf = scene.authority.agent("a");
    let ours = leaf.material(&scene.authority);
    let other_proxy = scene.authority.client("proxy").peer_certificate();
    let foreign = Nonces::new()
        .give(scene.proxy.thumbprint, scene.now)
        .unwrap();
    let mut altered = scene.nonce().to_vec();
    altered[20] ^= 1;
    for (proof, why) in [
        (
            prove(&ours, "evil.example", UID, scene.nonce()),
            Refused::ServerName,
        ),
        (prove(&ours, "", UID, scene.nonce()), Refused::Unreadable),
        (
            prove(&ours, "localhost", "another", scene.nonce()),
            Refused::Signature,
        ),
        (prove(&ours, "localhost", UID, foreign), Refused::Nonce),
        (
            prove(&ours, "localhost", UID, altered.into()),
            Refused::Nonce,
        ),
        (
            prove(&ours, "localhost", UID, Bytes::from_static(b"short")),
            Refused::Nonce,
        ),
        (
            Proof {
                server_name: "localhost.".to_owned(),
                ..scene.proof(&leaf)
            },
            Refused::Signature,
        ),
        (Proof::default(), Refused::Unreadable),
    ] {
        assert_eq!(scene.judge(&proof, scene.now).unwrap_err(), why);
    }
    let proof = scene.proof(&leaf);
    assert_eq!(
        scene
            .judge_from(&proof, &other_proxy, scene.now)
            .unwrap_err(),
        Refused::Nonce
    );
}

#[test]
fn a_certificate_that_is_not_ours_or_over_proves_nothing() {
    let scene = scene();
    let stranger = Authority::new().agent("a");
    let server = scene.authority.server();
    for leaf in [stranger, scene.authority.expired("a"), server] {
        let refused = scene.judge(&scene.proof(&leaf), scene.now).unwrap_err();
        assert_eq!(refused, Refused::Certificate);
    }
}

#[test]
fn the_key_of_one_certificate_proves_no_other() {
    let scene = scene();
    let mut proof = scene.proof(&scene.authority.agent("a"));
    proof.chain = scene.proof(&scene.authority.agent("b")).chain;
    assert_eq!(
        scene.judge(&proof, scene.now).unwrap_err(),
        Refused::Signature
    );
    let mut other_scheme = scene.proof(&scene.authority.agent("a"));
    for scheme in [0, 0x0804, 0x0807, 0x0503, u32::MAX] {
        other_scheme.scheme = scheme;
        assert_eq!(
            scene.judge(&other_scheme, scene.now).unwrap_err(),
            Refused::Signature
        );
    }
}
