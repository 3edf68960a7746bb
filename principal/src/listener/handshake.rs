//! Why a handshake failed, as a word for the metrics.

use std::io;

use rustls::{CertificateError, Error as Tls};

/// Sorts the error of a failed handshake. Bytes that are no TLS at all are `garbage`.
pub(super) fn outcome(error: &io::Error) -> &'static str {
    let Some(tls) = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Tls>())
    else {
        return "closed";
    };
    if matches!(tls, Tls::NoCertificatesPresented) {
        return "no_certificate";
    }
    if let Tls::InvalidCertificate(reason) = tls {
        return certificate(reason);
    }
    if matches!(tls, Tls::AlertReceived(_)) {
        return "refused_by_peer";
    }
    if matches!(tls, Tls::PeerIncompatible(_) | Tls::NoApplicationProtocol) {
        return "incompatible";
    }
    if matches!(
        tls,
        Tls::InvalidMessage(_)
            | Tls::InappropriateMessage { .. }
            | Tls::InappropriateHandshakeMessage { .. }
            | Tls::PeerMisbehaved(_)
            | Tls::DecryptError
            | Tls::PeerSentOversizedRecord
    ) {
        return "garbage";
    }
    "other"
}

fn certificate(reason: &CertificateError) -> &'static str {
    if matches!(
        reason,
        CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. }
    ) {
        return "expired";
    }
    if matches!(reason, CertificateError::BadEncoding) {
        return "garbage";
    }
    "untrusted"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_its_word() {
        let word = |tls: Tls| outcome(&io::Error::new(io::ErrorKind::InvalidData, tls));
        assert_eq!(word(Tls::NoCertificatesPresented), "no_certificate");
        assert_eq!(
            word(Tls::InvalidCertificate(CertificateError::Expired)),
            "expired"
        );
        assert_eq!(
            word(Tls::InvalidCertificate(CertificateError::UnknownIssuer)),
            "untrusted"
        );
        assert_eq!(word(Tls::PeerSentOversizedRecord), "garbage");
        assert_eq!(word(Tls::DecryptError), "garbage");
        assert_eq!(
            outcome(&io::Error::from(io::ErrorKind::UnexpectedEof)),
            "closed"
        );
    }
}
