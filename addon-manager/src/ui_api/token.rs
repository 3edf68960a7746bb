//! The secret that argocd-server and the hub program share.

use aws_lc_rs::{constant_time::verify_slices_are_equal, error::Unspecified, rand};

/// Random bytes of a new token; twice as many characters.
const RANDOM: usize = 32;
/// The shortest and the longest usable token, in characters.
const LENGTHS: std::ops::RangeInclusive<usize> = RANDOM..=256;

/// A secret text. It cannot be printed, and is compared in constant time.
#[derive(Clone, derive_more::Debug)]
pub struct Token(#[debug(skip)] Box<str>);

impl Token {
    /// A new one of 64 hexadecimal digits.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn generate() -> Result<Self, Unspecified> {
        let mut bytes = [0; RANDOM];
        rand::fill(&mut bytes)?;
        Ok(Self(hex::encode(bytes).into()))
    }

    /// Reads one; none if it cannot be the value of a header as it is, or is too short. Argo CD removes white space around it,
    /// too.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let text = str::from_utf8(bytes).ok()?.trim();
        // Without `$`: argocd-server sends the name of a Secret that it does not find instead of its value.
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        let is_usable = LENGTHS.contains(&text.len()) && text.bytes().all(fits);
        is_usable.then(|| Self(text.into()))
    }

    /// Whether a client sent this one.
    pub fn is(&self, sent: &[u8]) -> bool {
        verify_slices_are_equal(self.0.as_bytes(), sent).is_ok()
    }

    /// The text, to store it.
    pub const fn expose(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_tokens_are_usable_and_differ() {
        let [one, other] = [Token::generate().unwrap(), Token::generate().unwrap()];
        assert_eq!(one.expose().len(), 64);
        assert!(one.is(one.expose().as_bytes()) && !one.is(other.expose().as_bytes()));
        let stored = format!(" {}\n", one.expose());
        assert!(
            Token::read(stored.as_bytes())
                .unwrap()
                .is(one.expose().as_bytes())
        );
    }

    #[test]
    fn short_or_unsendable_tokens_are_not_usable() {
        let long = "a".repeat(257);
        let spaced = format!("{} {}", "a".repeat(20), "a".repeat(20));
        let unknown = format!("$argocd-agent-addon-ui:{}", "a".repeat(20));
        for bad in ["", "short", &"a".repeat(31), &long, &spaced, &unknown] {
            assert!(Token::read(bad.as_bytes()).is_none(), "{bad}");
        }
        assert!(Token::read(&[0xff; 40]).is_none());
        assert!(Token::read("a".repeat(32).as_bytes()).is_some());
    }

    #[test]
    fn token_is_never_printed() {
        let token = Token::read("secret-secret-secret-secret-secret".as_bytes());
        assert_eq!(format!("{token:?}"), "Some(Token(..))");
    }
}
