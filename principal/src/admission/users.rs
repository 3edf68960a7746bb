//! Users and passwords, in the file format of the Go principal: `user:bcrypt hash`, one a line.
//!
//! A bcrypt hash takes tens of milliseconds of a processor on purpose. So at most [`HANDS`] are computed at a time, the
//! number of waiting requests is bounded, addresses with many wrong passwords are throttled, and a keyed digest
//! recognises a correct password until its hash changes: a storm of reconnects costs one hash for each user.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    path::{Path, PathBuf},
    str::FromStr as _,
    sync::Arc,
    time::Duration,
};

use aws_lc_rs::hmac;
use parking_lot::Mutex;
use protocol::refusal::Refusal;
use runtime::{error::Chain, parts::Spawner};
use tokio::sync::{Semaphore, watch};

use crate::{
    admission::{budget::Budget, peer::Network},
    fleet::ClusterName,
};

/// How often the file is looked at.
pub const POLL_INTERVAL: Duration = Duration::from_secs(3);
/// How often the file is read.
const HANDS: usize = 2;
/// Requests that may wait for a hash; more are rejected.
const WAITING: usize = 64;
/// A file of a hundred thousand users.
const LARGEST: u64 = 16 << 20;
/// A hash that costs more than this (half a minute) is a mistake, or meant to stop us.
const DEAREST: u32 = 16;
/// Compared for an unknown user, so that timing does not reveal user names. Of no password.
const UNKNOWN_USER: &str = "$2b$10$CwTycUXWue0Thq9StjUM0uJ8QZ2Gx9C8u0r5Jr3vUqVZ4l7f0Gq9W";

/// All users with the hashes of their passwords. Cannot be printed.
#[derive(Clone, Default, derive_more::Debug)]
#[debug("Users({})", _0.len())]
pub struct Users(Arc<BTreeMap<String, Arc<str>>>);

impl Users {
    /// Reads a file's text; lines that are none are logged by their number and left out.
    pub fn read(text: &str) -> Self {
        let mut users = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            let (line, number) = (line.trim(), number + 1);
            if line.is_empty() || line.starts_with('#') || line.starts_with("//") {
                continue;
            }
            match entry(line) {
                Ok((user, hash)) => {
                    users.insert(user.to_owned(), Arc::from(hash));
                }
                Err(why) => tracing::warn!(line = number, why, "ignoring an invalid user entry"),
            }
        }
        Self(Arc::new(users))
    }

    /// The hash of a user's password.
    pub(crate) fn hash(&self, user: &ClusterName) -> Option<&Arc<str>> {
        self.0.get(user.as_str())
    }
}

fn entry(line: &str) -> Result<(&str, &str), &'static str> {
    let (user, hash) = line.split_once(':').ok_or("it is not user:hash")?;
    ClusterName::try_from(user).map_err(|_invalid| "the user is not a DNS-1123 label")?;
    let parts = bcrypt::HashParts::from_str(hash);
    let parts = parts.map_err(|_invalid| "the password is not a bcrypt hash")?;
    if parts.get_cost() > DEAREST {
        return Err("the bcrypt hash is too costly");
    }
    Ok((user, hash))
}

/// Checks passwords against the file as it is now.
#[derive(derive_more::Debug)]
#[debug("Passwords")]
pub(crate) struct Passwords {
    pub(crate) users: watch::Receiver<Users>,
    hands: Semaphore,
    waiting: Semaphore,
    wrong: Budget<Network>,
    /// None on a system without randomness, where every check computes the hash.
    key: Option<hmac::Key>,
    /// The digest of the last correct password, by its hash. Locked for a lookup only.
    right: Mutex<BTreeMap<String, (Arc<str>, hmac::Tag)>>,
}

impl Passwords {
    /// Follows these users.
    pub(crate) fn new(users: watch::Receiver<Users>) -> Self {
        let random = aws_lc_rs::rand::SystemRandom::new();
        Self {
            users,
            hands: Semaphore::new(HANDS),
            waiting: Semaphore::new(WAITING),
            wrong: Budget::new(20, Duration::from_secs(3)),
            key: hmac::Key::generate(hmac::HMAC_SHA256, &random).ok(),
            right: Mutex::default(),
        }
    }

    /// The cluster of this user; rejected with a wrong password.
    pub(crate) async fn check(
        &self,
        address: IpAddr,
        user: &str,
        password: &str,
    ) -> Result<ClusterName, Refusal> {
        let known = ClusterName::try_from(user).ok().and_then(|name| {
            let hash = self.users.borrow().hash(&name).cloned()?;
            Some((name, hash))
        });
        if let Some((name, hash)) = &known
            && self.was_right(name, hash, password)
        {
            return Ok(name.clone());
        }
        let network = Network::from(address);
        if !self.wrong.has_left(&network) {
            return Err(Refusal::TooMany);
        }
        let waiting = self.waiting.try_acquire();
        let _waiting = waiting.map_err(|_full| Refusal::TooMany)?;
        let hand = self.hands.acquire().await;
        let _hand = hand.map_err(|_closed| Refusal::Internal)?;
        let hash = known.as_ref().map(|(_, hash)| Arc::clone(hash));
        let hash = hash.unwrap_or_else(|| UNKNOWN_USER.into());
        let fits = fits(password.to_owned(), hash).await;
        match known {
            Some((name, hash)) if fits => {
                self.remember(&name, hash, password);
                Ok(name)
            }
            Some(_) | None => {
                self.wrong.spend(&network);
                Err(Refusal::AuthenticationFailed)
            }
        }
    }

    fn was_right(&self, user: &ClusterName, hash: &Arc<str>, password: &str) -> bool {
        let Some(key) = &self.key else {
            return false;
        };
        self.right
            .lock()
            .get(user.as_str())
            .is_some_and(|(fitted, tag)| {
                // In constant time, as everything that compares a secret.
                fitted == hash && hmac::verify(key, password.as_bytes(), tag.as_ref()).is_ok()
            })
    }

    fn remember(&self, user: &ClusterName, hash: Arc<str>, password: &str) {
        let Some(key) = &self.key else {
            return;
        };
        let tag = hmac::sign(key, password.as_bytes());
        let users = self.users.borrow().clone();
        let mut right = self.right.lock();
        right.retain(|known, _| users.0.contains_key(known));
        right.insert(user.to_string(), (hash, tag));
    }
}

/// Compares, on a thread for such work.
async fn fits(password: String, hash: Arc<str>) -> bool {
    let comparing = tokio::task::spawn_blocking(move || bcrypt::verify(password, &hash));
    matches!(comparing.await, Ok(Ok(true)))
}

/// Reads the file now, and again whenever its content changes. An unreadable file changes nothing.
pub(crate) async fn follow(path: PathBuf, spawner: &Spawner) -> watch::Receiver<Users> {
    let mut last = None;
    let first = read(&path, &mut last).await.unwrap_or_default();
    let (send, users) = watch::channel(first);
    let token = spawner.token().clone();
    spawner.spawn("principal: users", async move {
        let mut ticks = tokio::time::interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while token.run_until_cancelled(ticks.tick()).await.is_some() {
            if let Some(users) = read(&path, &mut last).await {
                tracing::info!(users = users.0.len(), "reloaded the users");
                send.send_replace(users);
            }
        }
    });
    users
}

/// The users, if the file says something new.
async fn read(path: &Path, last: &mut Option<Result<String, String>>) -> Option<Users> {
    let text = async {
        let size = tokio::fs::metadata(path).await?.len();
        if size > LARGEST {
            return Err(std::io::Error::other("it is too large"));
        }
        tokio::fs::read_to_string(path).await
    };
    let now = text.await.map_err(|error| Chain(&error).to_string());
    if last.as_ref() == Some(&now) {
        return None;
    }
    if let Err(error) = &now {
        tracing::warn!(
            ?path,
            error,
            "cannot read the users; keeping the previous ones"
        );
    }
    let now = last.insert(now);
    now.as_ref().ok().map(|text| Users::read(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of `secret`, as cheap as it gets.
    fn hash(password: &str) -> String {
        bcrypt::hash(password, 4).unwrap()
    }

    fn passwords(text: &str) -> (watch::Sender<Users>, Passwords) {
        let (send, users) = watch::channel(Users::read(text));
        (send, Passwords::new(users))
    }

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn the_file_is_read_as_go_reads_it() {
        let good = hash("secret");
        let text = format!(
            "# users\n// more\n\n  a:{good}  \nB:{good}\nc:plain\nd\ne:$2y$10$short\nb:{}\n",
            good.replacen("$2b$", "$2y$", 1)
        );
        let users = Users::read(&text);
        let names: Vec<&str> = users.0.keys().map(String::as_str).collect();
        assert_eq!(names, ["a", "b"]);
        let dear = good.replacen("$04$", "$31$", 1);
        assert!(Users::read(&format!("a:{dear}")).0.is_empty());
        assert!(!format!("{users:?}").contains("$2"));
    }

    #[tokio::test]
    async fn the_right_password_of_a_known_user_is_the_only_one_that_opens() {
        let (_send, passwords) = passwords(&format!("a:{}\nb:{}", hash("secret"), hash("other")));
        let check = async |user, password| passwords.check(HERE, user, password).await;
        assert_eq!(check("a", "secret").await.unwrap().as_str(), "a");
        assert_eq!(check("a", "secret").await.unwrap().as_str(), "a");
        for (user, password) in [
            ("a", "other"),
            ("a", ""),
            ("c", "secret"),
            ("A", "secret"),
            ("", ""),
        ] {
            let refused = check(user, password).await.unwrap_err();
            assert_eq!(refused, Refusal::AuthenticationFailed, "{user} {password}");
        }
    }

    #[tokio::test]
    async fn a_changed_hash_makes_the_old_password_wrong_at_once() {
        let (send, passwords) = passwords(&format!("a:{}", hash("secret")));
        assert!(passwords.check(HERE, "a", "secret").await.is_ok());
        send.send_replace(Users::read(&format!("a:{}", hash("new"))));
        assert!(passwords.check(HERE, "a", "secret").await.is_err());
        assert!(passwords.check(HERE, "a", "new").await.is_ok());
        send.send_replace(Users::default());
        assert!(passwords.check(HERE, "a", "new").await.is_err());
    }

    #[tokio::test]
    async fn password_guessing_is_throttled() {
        let (_send, passwords) = passwords(&format!("a:{}", hash("secret")));
        assert!(passwords.check(HERE, "a", "secret").await.is_ok());
        let mut last = Ok(());
        for _ in 0..30 {
            last = passwords.check(HERE, "a", "guess").await.map(drop);
        }
        assert_eq!(last.unwrap_err(), Refusal::TooMany);
        assert!(passwords.check(HERE, "a", "secret").await.is_ok());
        let elsewhere = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
        let refused = passwords.check(elsewhere, "a", "guess").await.unwrap_err();
        assert_eq!(refused, Refusal::AuthenticationFailed);
    }
}
