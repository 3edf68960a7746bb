//! What the agent reads in its own token: who the principal takes it for, and for how long.
//!
//! A Go principal does not say that anywhere else, and its names of mirrored projects begin with it.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::Value;

/// The agent's name in a token. Not verified: the token comes from the principal, and is used as its word only.
pub fn subject(token: &str) -> Option<String> {
    let claims = claims(token)?;
    let subject: Value = serde_json::from_str(claims.get("sub")?.as_str()?).ok()?;
    let name = subject.get("clientID")?.as_str()?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// How long a token is good for from the moment it was issued, whatever our own clock says.
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
    fn a_token_says_who_the_principal_takes_us_for() {
        let claims = r#"{"sub":"{\"clientID\":\"spoke1\",\"mode\":\"autonomous\"}"}"#;
        let token = format!("h.{}.s", URL_SAFE_NO_PAD.encode(claims));
        assert_eq!(subject(&token).as_deref(), Some("spoke1"));
        for odd in ["", "a.b", "a.!.c", "a.e30.c"] {
            assert_eq!(subject(odd), None, "{odd:?}");
        }
    }
    #[test]
    fn a_token_says_for_how_long_it_is_good() {
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
