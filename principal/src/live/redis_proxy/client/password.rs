//! Authentication of a client by the password of the hub's redis. Pure.

use aws_lc_rs::constant_time;
use runtime::credentials::login::Login;

use crate::live::redis_proxy::command::Claim;

/// Whether these are the credentials of this login.
pub(super) fn accepts(known: &Login, claim: Claim<'_>) -> bool {
    let user = claim.user.unwrap_or(b"default");
    let is_user = user == known.user.as_deref().unwrap_or("default").as_bytes();
    let password = known.password.as_bytes();
    // Timing may reveal the length only.
    let is_password = constant_time::verify_slices_are_equal(claim.password, password).is_ok();
    is_user && is_password
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim<'a>(user: Option<&'a str>, password: &'a str) -> Claim<'a> {
        Claim {
            user: user.map(str::as_bytes),
            password: password.as_bytes(),
        }
    }

    #[test]
    fn only_the_right_user_and_password_are_accepted() {
        let login = |user: Option<&str>| Login {
            user: user.map(ToOwned::to_owned),
            password: "secret".to_owned(),
        };
        assert!(accepts(&login(None), claim(None, "secret")));
        assert!(accepts(&login(None), claim(Some("default"), "secret")));
        assert!(accepts(&login(Some("argo")), claim(Some("argo"), "secret")));
        assert!(!accepts(&login(None), claim(Some("argo"), "secret")));
        assert!(!accepts(&login(Some("argo")), claim(None, "secret")));
        for wrong in ["", "secre", "secret ", "Secret"] {
            assert!(!accepts(&login(None), claim(None, wrong)), "{wrong:?}");
        }
    }
}
