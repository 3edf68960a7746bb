//! What the agent reads in its own token: who the principal takes it for.
//!
//! A Go principal does not say that anywhere else, and its names of mirrored projects begin with it.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::Value;

/// The agent's name in a token. Not verified: the token comes from the principal, and is used as its word only.
pub fn subject(token: &str) -> Option<String> {
    let claims = token.split('.').nth(1)?;
    let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    let subject: Value = serde_json::from_str(claims.get("sub")?.as_str()?).ok()?;
    let name = subject.get("clientID")?.as_str()?;
    (!name.is_empty()).then(|| name.to_owned())
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
}
