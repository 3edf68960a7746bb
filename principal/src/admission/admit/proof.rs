//! The in-session proof: the identity of an agent behind a proxy that ends TLS.
//!
//! Nonces are not stored when they are issued, so that requests cannot fill our memory. A nonce carries its expiry and
//! its proxy under a seal. Only used nonces are stored, until they expire.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use aws_lc_rs::{hmac, rand};
use bytes::Bytes;
use jiff::Timestamp;
use parking_lot::Mutex;
use protocol::{
    proof::{self, Refused},
    wire::authapi::Proof,
};
use runtime::credentials::Material;
use rustls::{SignatureScheme, client::verify_server_name, server::ParsedCertificate};
use rustls_pki_types::{CertificateDer, ServerName};
use x509_parser::{certificate::X509Certificate, prelude::FromDer as _};

use crate::admission::{
    identity::{PeerCertificate, Thumbprint},
    trust::Trust,
};

/// From `Version` to `Authenticate` is one round trip, over a slow proxy a few seconds.
const LIFE: Duration = Duration::from_mins(1);
/// More proofs than the budget of a large fleet allows in that time.
const MOST_USED: usize = 100_000;

const RANDOM: usize = 16;
const SEAL: usize = 32;
const LENGTH: usize = RANDOM + 8 + SEAL;

/// Issues nonces and accepts each of them once.
#[derive(derive_more::Debug)]
#[debug("Nonces")]
pub(crate) struct Nonces {
    /// None on a system without randomness, where there are no nonces.
    key: Option<hmac::Key>,
    // Locked for a lookup, never over an await.
    used: Mutex<BTreeMap<[u8; RANDOM], Timestamp>>,
}

impl Nonces {
    /// Uses a key of this process: nonces are valid in this process only.
    pub(crate) fn new() -> Self {
        let random = rand::SystemRandom::new();
        Self {
            key: hmac::Key::generate(hmac::HMAC_SHA256, &random).ok(),
            used: Mutex::default(),
        }
    }

    /// A nonce for a proof that comes over this proxy; none when the system has no randomness.
    pub(crate) fn give(&self, proxy: Thumbprint, now: Timestamp) -> Option<Bytes> {
        let mut random = [0; RANDOM];
        rand::fill(&mut random).ok()?;
        let ends = now.checked_add(LIFE).ok()?.as_millisecond().to_be_bytes();
        let seal = hmac::sign(self.key.as_ref()?, &sealed(&random, ends, proxy));
        Some([&random[..], &ends, seal.as_ref()].concat().into())
    }

    /// Checks that a nonce was issued to this proxy and has not expired.
    fn check(&self, nonce: &[u8], proxy: Thumbprint, now: Timestamp) -> Result<Read, Refused> {
        let (random, rest) = nonce.split_first_chunk::<RANDOM>().ok_or(Refused::Nonce)?;
        let (ends, seal) = rest.split_first_chunk::<8>().ok_or(Refused::Nonce)?;
        if nonce.len() != LENGTH {
            return Err(Refused::Nonce);
        }
        let key = self.key.as_ref().ok_or(Refused::Nonce)?;
        hmac::verify(key, &sealed(random, *ends, proxy), seal)
            .map_err(|_unspecified| Refused::Nonce)?;
        let ends = Timestamp::from_millisecond(i64::from_be_bytes(*ends))
            .map_err(|_range| Refused::Nonce)?;
        if ends <= now {
            return Err(Refused::Late);
        }
        Ok(Read {
            random: *random,
            ends,
        })
    }

    /// Marks a nonce as used; refused when it was used before.
    fn take(&self, read: &Read, now: Timestamp) -> Result<(), Refused> {
        let mut used = self.used.lock();
        used.retain(|_, ends| *ends > now);
        if used.len() >= MOST_USED || used.insert(read.random, read.ends).is_some() {
            return Err(Refused::Replayed);
        }
        Ok(())
    }
}

fn sealed(random: &[u8], ends: [u8; 8], proxy: Thumbprint) -> Vec<u8> {
    [random, &ends, proxy.as_bytes()].concat()
}

struct Read {
    random: [u8; RANDOM],
    ends: Timestamp,
}

/// The inputs of the check of a proof.
pub(super) struct Judge<'a> {
    pub(super) nonces: &'a Nonces,
    /// Our certificate, whose names agents dial, and the trusted CAs.
    pub(super) material: &'a Material,
    pub(super) principal_uid: &'a str,
    pub(super) now: Timestamp,
}

impl Judge<'_> {
    /// The certificate that was proved on a connection of this proxy. Uses up the nonce only if the proof is valid.
    pub(super) fn judge(
        &self,
        proof: &Proof,
        proxy: &PeerCertificate,
    ) -> Result<Arc<PeerCertificate>, Refused> {
        if !proof::is_presentable(proof) {
            return Err(Refused::Unreadable);
        }
        let read = (self.nonces).check(&proof.nonce, proxy.thumbprint, self.now)?;
        if !self.is_ours(&proof.server_name) {
            return Err(Refused::ServerName);
        }
        let chain = proof.chain.iter().map(|der| der.to_vec().into());
        let chain: Vec<CertificateDer<'_>> = chain.collect();
        let certificate = PeerCertificate::from_chain(&chain).ok_or(Refused::Unreadable)?;
        if !Trust::new(self.material).lets_in(&certificate, self.now) {
            return Err(Refused::Certificate);
        }
        let signed = proof::signed(&proof.server_name, self.principal_uid, &proof.nonce);
        if !is_signed(certificate.leaf(), proof, &signed) {
            return Err(Refused::Signature);
        }
        self.nonces.take(&read, self.now)?;
        Ok(Arc::new(certificate))
    }

    /// Whether our own certificate has this name.
    fn is_ours(&self, name: &str) -> bool {
        let identity = self.material.identity.as_ref();
        let leaf = identity.and_then(|identity| identity.chain().first());
        let (Some(leaf), Ok(name)) = (leaf, ServerName::try_from(name)) else {
            return false;
        };
        ParsedCertificate::try_from(leaf).is_ok_and(|leaf| verify_server_name(&leaf, &name).is_ok())
    }
}

/// Whether the key of this certificate made the signature, by a scheme that TLS 1.3 would take.
fn is_signed(leaf: &[u8], proof: &Proof, message: &[u8]) -> bool {
    let (Ok((_, parsed)), Ok(scheme)) = (
        X509Certificate::from_der(leaf),
        u16::try_from(proof.scheme).map(SignatureScheme::from),
    ) else {
        return false;
    };
    let algorithms = runtime::credentials::provider().signature_verification_algorithms;
    let mut mapping = algorithms.mapping.iter();
    let of_scheme = mapping.find(|(known, _)| *known == scheme);
    // As in TLS 1.3, a scheme means one algorithm, and with it one kind of key.
    let Some(algorithm) = of_scheme.and_then(|(_, algorithms)| algorithms.first()) else {
        return false;
    };
    let key = parsed.public_key();
    let wanted = algorithm.public_key_alg_id();
    // The identifier is a sequence without its own header there.
    let has_kind = key
        .raw
        .windows(wanted.as_ref().len())
        .take(8)
        .any(|it| it == wanted.as_ref());
    has_kind
        && algorithm
            .verify_signature(&key.subject_public_key.data, message, &proof.signature)
            .is_ok()
}

#[cfg(test)]
mod tests;
