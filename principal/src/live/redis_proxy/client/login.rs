//! Authentication of a client by the password of the hub's redis.

use aws_lc_rs::constant_time;
use runtime::credentials::login::Login;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    super::command::{Claim, Version},
    Client, Ended, NO_AUTH,
};

const WRONG_PASSWORDS: u32 = 3;
const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const NO_PASSWORD: &str = "ERR the password of the hub's redis is not known yet; try again";

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(super) async fn hello(
        &mut self,
        version: Option<Version>,
        claim: Option<Claim<'_>>,
    ) -> Result<(), Ended> {
        if let Some(claim) = claim
            && !self.authenticate(claim).await?
        {
            return Ok(());
        }
        if self.login.is_none() {
            return Ok(self.writer.error(NO_AUTH).await?);
        }
        let before = self.writer.version;
        let version = version.unwrap_or(before);
        if version != before && self.has_subscriptions() {
            let error = "ERR the version of a connection with subscriptions stays";
            return Ok(self.writer.error(error).await?);
        }
        if version != before {
            // The next command reconnects with the other version.
            self.upstream = None;
        }
        self.writer.version = version;
        Ok(self.writer.hello().await?)
    }

    /// Whether the credentials are right; if not, this has sent the error.
    pub(super) async fn authenticate(&mut self, claim: Claim<'_>) -> Result<bool, Ended> {
        let known = self.shared.login.borrow().clone();
        let Some(known) = known else {
            self.writer.error(NO_PASSWORD).await?;
            return Ok(false);
        };
        if accepts(&known, claim) {
            self.login = Some(known);
            self.unauthenticated = None;
            return Ok(true);
        }
        self.wrong_passwords = self.wrong_passwords.saturating_add(1);
        self.writer.error(WRONG_PASSWORD).await?;
        if self.wrong_passwords >= WRONG_PASSWORDS {
            self.writer.flush().await?;
            return Err(Ended::WrongPassword);
        }
        Ok(false)
    }
}

fn accepts(known: &Login, claim: Claim<'_>) -> bool {
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
