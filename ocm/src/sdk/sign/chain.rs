//! The certificates of a CA: its own, and those of the CAs above it.

use std::collections::BTreeSet;

use x509_parser::{
    certificate::X509Certificate, error::X509Error, pem::parse_x509_pem,
    prelude::parse_x509_certificate,
};

/// A certificate, as text and in DER.
#[derive(Debug)]
pub(super) struct Certificate {
    pub(super) pem: String,
    pub(super) der: Vec<u8>,
}

/// The certificates in a PEM text; `None` if one of them is not readable.
pub(super) fn certificates(text: &str) -> Option<Vec<Certificate>> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    let blocks = text.split_inclusive(END);
    let blocks = blocks.filter_map(|block| block.find(BEGIN).and_then(|at| block.get(at..)));
    let read = |pem: &str| {
        let (_, block) = parse_x509_pem(pem.as_bytes()).ok()?;
        parse_x509_certificate(&block.contents).ok()?;
        Some(Certificate {
            pem: pem.to_owned(),
            der: block.contents,
        })
    };
    blocks.map(read).collect()
}

/// The first certificate and those above it, each of which signed the one before it, up to a root.
///
/// The others, such as an earlier CA that is still trusted, are left out.
pub(super) fn path(certificates: Vec<Certificate>) -> Vec<Certificate> {
    let mut others = certificates.into_iter();
    let mut path: Vec<_> = others.next().into_iter().collect();
    let mut others: Vec<_> = others.collect();
    while let Some(last) = path.last().filter(|it| !is_self_signed(&it.der)) {
        let above = others
            .iter()
            .position(|it| is_issued_by(&last.der, &it.der));
        let Some(above) = above else {
            break;
        };
        path.push(others.swap_remove(above));
    }
    path
}

/// The certificates of a PEM text without the CAs above the first one: these accompany what the first one signs, and need
/// no trust of their own. A text that is not readable stays as it is.
pub fn own_roots(text: &str) -> String {
    let Some(all) = certificates(text) else {
        return text.to_owned();
    };
    let mut others = all.into_iter();
    let mut line: Vec<_> = others.next().into_iter().collect();
    let mut others: Vec<_> = others.collect();
    let mut at = 0;
    while let Some(below) = line.get(at) {
        let is_root = is_self_signed(&below.der);
        let (above, rest): (Vec<_>, Vec<_>) = others
            .into_iter()
            .partition(|it| !is_root && is_issued_by(&below.der, &it.der));
        line.extend(above);
        others = rest;
        at += 1;
    }
    let roots = line.iter().take(1).chain(&others);
    roots.flat_map(|it| [it.pem.as_str(), "\n"]).collect()
}

/// Whether a certificate names itself as its issuer.
pub(super) fn is_self_signed(certificate: &[u8]) -> bool {
    parse_x509_certificate(certificate)
        .is_ok_and(|(_, it)| it.subject().as_raw() == it.issuer().as_raw())
}

/// Whether a peer that trusts `root` trusts this certificate: both are of one CA, or `root` signed it.
pub(super) fn is_anchored(certificate: &[u8], root: &[u8]) -> bool {
    both(certificate, root, |it, root| {
        let is_same = it.subject().as_raw() == root.subject().as_raw()
            && it.public_key().raw == root.public_key().raw;
        is_same || signed(root, it)
    })
}

fn is_issued_by(certificate: &[u8], issuer: &[u8]) -> bool {
    both(certificate, issuer, |it, issuer| signed(issuer, it))
}

/// Whether both certificates are readable, and pass the test.
fn both(
    one: &[u8],
    other: &[u8],
    test: impl FnOnce(&X509Certificate<'_>, &X509Certificate<'_>) -> bool,
) -> bool {
    let parsed = (parse_x509_certificate(one), parse_x509_certificate(other));
    matches!(parsed, (Ok((_, one)), Ok((_, other))) if test(&one, &other))
}

/// An algorithm that only peers can verify counts as a good signature.
fn signed(issuer: &X509Certificate<'_>, certificate: &X509Certificate<'_>) -> bool {
    let verified = certificate.verify_signature(Some(issuer.public_key()));
    certificate.issuer().as_raw() == issuer.subject().as_raw()
        && !matches!(verified, Err(X509Error::SignatureVerificationError))
}

/// Whether rcgen can write the subject as an issuer: it keeps one value per attribute type, and one attribute per part.
pub(super) fn has_plain_subject(certificate: &X509Certificate<'_>) -> bool {
    let mut kinds = BTreeSet::new();
    certificate.subject().iter().all(|part| {
        let mut attributes = part.iter();
        let first = attributes.next();
        let kind = first.map(|attribute| attribute.attr_type().to_id_string());
        kind.is_some_and(|kind| kinds.insert(kind)) && attributes.next().is_none()
    })
}

#[cfg(test)]
mod tests;
