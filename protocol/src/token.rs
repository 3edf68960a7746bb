//! The claims that an agent reads in its own JWT: its name and the lifetime of the token.
//!
//! A Go principal sends the name nowhere else, and it prefixes the names of mirrored projects with it.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::Value;

/// The agent's name in a token. Not verified: the token comes from the principal.
pub fn subject(token: &str) -> Option<String> {
    let claims = claims(token)?;
    let subject: Value = serde_json::from_str(claims.get("sub")?.as_str()?).ok()?;
    let name = subject.get("clientID")?.as_str()?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// The lifetime of a token, independent of our own clock.
pub fn life(token: &str) -> Option<Duration> {
    let claims = claims(token)?;
    let at = |name| claims.get(name).and_then(Value::as_u64);
    Some(Duration::from_secs(at("exp")?.checked_sub(at("iat")?)?))
}

fn claims(token: &str) -> Option<Value> {
    let claims = token.split('.').nth(1)?;
    let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
    serde_json::from_slice(&claims).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_name_is_read_from_the_jwt() {
        let claims = r#"{"sub":"{\"clientID\":\"spoke1\",\"mode\":\"autonomous\"}"}"#;
        let token = format!("h.{}.s", URL_SAFE_NO_PAD.encode(claims));
        assert_eq!(subject(&token).as_deref(), Some("spoke1"));
        for odd in ["", "a.b", "a.!.c", "a.e30.c"] {
            assert_eq!(subject(odd), None, "{odd:?}");
        }
    }
    #[test]
    fn lifetime_is_read_from_the_jwt() {
        let of = |claims: &str| life(&format!("h.{}.s", URL_SAFE_NO_PAD.encode(claims)));
        let five = Duration::from_mins(5);
        assert_eq!(of(r#"{"iat":1000,"exp":1300}"#), Some(five));
        for odd in [
            "{}",
            r#"{"exp":1}"#,
            r#"{"iat":2,"exp":1}"#,
            r#"{"iat":0.5,"exp":"x"}"#,
        ] {
            assert_eq!(of(odd), None, "{odd}");
        }
        assert_eq!(life("header.payload.signature"), None);
    }
}
