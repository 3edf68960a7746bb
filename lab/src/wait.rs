//! Waits for values by polling, never by sleeping for a guessed time.
//!
//! Every wait has a bound; when it passes, the error contains the awaited value and the last one seen.

use std::{fmt::Debug, future::Future, time::Duration};

use anyhow::{Result, anyhow};
use kube::{Api, Resource, api::DynamicObject};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::{Instant, sleep, timeout_at};

/// The default bound of a wait: far longer than anything here takes on a slow machine, so that only real
/// errors exceed it.
pub const BOUND: Duration = Duration::from_secs(90);

/// The polling interval. Short enough to add nothing to a test, long enough to leave the processor to others.
const INTERVAL: Duration = Duration::from_millis(50);

/// The longest text of a last value that a failure shows.
const SHOWN: usize = 6_000;

/// Waits until `look` sees a value that `fits`, for at most [`BOUND`], and returns that value.
///
/// An error of `look` counts as a value that does not fit; it is shown if it was the last.
pub async fn until<V, Looking>(
    what: &str,
    look: impl FnMut() -> Looking,
    fits: impl FnMut(&V) -> bool,
) -> Result<V>
where
    V: Debug,
    Looking: Future<Output = Result<V>>,
{
    until_within(BOUND, what, look, fits).await
}

/// Like [`until`], with a bound of its own.
pub async fn until_within<V, Looking>(
    bound: Duration,
    what: &str,
    mut look: impl FnMut() -> Looking,
    mut fits: impl FnMut(&V) -> bool,
) -> Result<V>
where
    V: Debug,
    Looking: Future<Output = Result<V>>,
{
    let end = Instant::now() + bound;
    let mut last = "nothing: the first look did not end".to_owned();
    loop {
        match timeout_at(end, look()).await {
            Ok(Ok(value)) if fits(&value) => return Ok(value),
            Ok(Ok(value)) => last = format!("{value:#?}"),
            Ok(Err(error)) => last = format!("error: {error:#}"),
            Err(_) => return Err(gave_up(what, bound, &last)),
        }
        if Instant::now() + INTERVAL >= end {
            return Err(gave_up(what, bound, &last));
        }
        sleep(INTERVAL).await;
    }
}

/// Like [`until_within`], polling ten times less often: for looks that would disturb a measurement.
pub async fn slowly<V, Looking>(
    bound: Duration,
    what: &str,
    mut look: impl FnMut() -> Looking,
    fits: impl FnMut(&V) -> bool,
) -> Result<V>
where
    V: Debug,
    Looking: Future<Output = Result<V>>,
{
    let mut first = true;
    let paced = || {
        let pause = if std::mem::take(&mut first) {
            Duration::ZERO
        } else {
            INTERVAL * 9
        };
        let look = look();
        async move {
            sleep(pause).await;
            look.await
        }
    };
    until_within(bound, what, paced, fits).await
}

/// Waits until `count` has found nothing new for this long, for at most `bound`. Each look counts what is new since the one
/// before.
pub async fn quiet(
    bound: Duration,
    pause: Duration,
    what: &str,
    mut count: impl FnMut() -> Result<usize>,
) -> Result<()> {
    let mut last = Instant::now();
    let look = || std::future::ready(count());
    slowly(bound, what, look, |new| {
        if *new > 0 {
            last = Instant::now();
        }
        last.elapsed() >= pause
    })
    .await
    .map(drop)
}

/// Waits until the object exists and `fits`, and returns it. The error shows the object without its managed
/// fields.
pub async fn object<K>(
    api: &Api<K>,
    name: &str,
    what: &str,
    mut fits: impl FnMut(&K) -> bool,
) -> Result<K>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    let shown = until(
        &format!("{what} ({name})"),
        || async {
            let mut found = api.get_opt(name).await?;
            if let Some(found) = &mut found {
                found.meta_mut().managed_fields = None;
            }
            Ok(AsYaml(found))
        },
        |seen| seen.0.as_ref().is_some_and(&mut fits),
    )
    .await?;
    shown
        .0
        .ok_or_else(|| anyhow!("{what}: an object that fits is there"))
}

/// Waits until no object of that name exists.
pub async fn gone<K>(api: &Api<K>, name: &str) -> Result<()>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    let look = || async { Ok(AsYaml(api.get_opt(name).await?)) };
    until(&format!("{name} is gone"), look, |seen| seen.0.is_none())
        .await
        .map(drop)
}

/// Waits until the dynamic object's JSON fits, for objects without a type of their own.
pub async fn json(
    api: &Api<DynamicObject>,
    name: &str,
    what: &str,
    mut fits: impl FnMut(&serde_json::Value) -> bool,
) -> Result<serde_json::Value> {
    let look = || async {
        let mut object = api.get(name).await?;
        object.metadata.managed_fields = None;
        Ok(serde_json::to_value(object)?)
    };
    until(&format!("{what} ({name})"), look, |value| fits(value)).await
}

fn gave_up(what: &str, bound: Duration, last: &str) -> anyhow::Error {
    let mut shown: String = last.chars().take(SHOWN).collect();
    if shown.len() < last.len() {
        shown.push_str(" …");
    }
    anyhow!("not within {bound:?}: {what}\nlast seen: {shown}")
}

/// A value that is displayed as YAML.
struct AsYaml<K>(Option<K>);

impl<K: Serialize> Debug for AsYaml<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            None => f.write_str("no such object"),
            Some(object) => match serde_saphyr::to_string(object) {
                Ok(text) => f.write_str(&text),
                Err(error) => write!(f, "an object that cannot be shown: {error}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_returns_the_first_value_that_fits() {
        let looks = Cell::new(0);
        let look = || {
            looks.set(looks.get() + 1);
            std::future::ready(Ok(looks.get()))
        };
        assert_eq!(until("three", look, |seen| *seen == 3).await.ok(), Some(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_wait_reports_its_goal_and_the_last_value() {
        let look = || std::future::ready(Ok("amber"));
        let error = until("the light is green", look, |seen| *seen == "green").await;
        let text = error
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(
            text.contains("the light is green") && text.contains("amber"),
            "{text}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn quiet_begins_after_the_last_new_thing() {
        let (begin, pause) = (Instant::now(), Duration::from_secs(5));
        let busy = Duration::from_secs(8);
        let mut last = begin;
        let count = || {
            let is_busy = begin.elapsed() < busy;
            if is_busy {
                last = Instant::now();
            }
            Ok(usize::from(is_busy))
        };
        assert!(quiet(BOUND, pause, "no writes", count).await.is_ok());
        assert!(last > begin && last.elapsed() >= pause);
        let never = quiet(BOUND, pause, "no writes", || Ok(1)).await;
        assert!(never.is_err_and(|error| error.to_string().contains("no writes")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_hangs_is_bounded_too() {
        let look = std::future::pending::<Result<u8>>;
        assert!(
            until_within(Duration::from_secs(1), "never", look, |_| true)
                .await
                .is_err()
        );
    }
}
