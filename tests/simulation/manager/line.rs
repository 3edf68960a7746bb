//! The connection of one process to the API server: slow, refused, lost; and cut when the process is killed.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::http::{Request, Response};
use bytes::Bytes;
use futures::{Stream, stream};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use runtime::kube::with_history;
use runtime::lease::Fence;
use runtime::parts::Stall;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

use super::api::http::{Answer, Asked, event};
use super::api::select::Selector;
use super::api::{Api, Change, Refusal};
use super::fault::Fault;
use super::ledger::{LEASE, Ledger};
use crate::dice::{Dice, Trace};

/// The time of a request and of its answer, in milliseconds. The product allows for 400 for a write.
const LATENCY: (u64, u64) = (1, 60);
/// How long a watch lives, in milliseconds.
const WATCH: (u64, u64) = (5_000, 200_000);
const BOOKMARK: Duration = Duration::from_mins(1);

/// The body of an answer.
type Sent = UnsyncBoxBody<Bytes, Infallible>;

/// How often requests fail between all processes and the API server, until the end of a history.
#[derive(Clone, Debug)]
pub(crate) struct Interference(Arc<Mutex<f64>>);

impl Interference {
    /// So often, of one, does a request meet trouble.
    pub(crate) fn new(often: f64) -> Self {
        Self(Arc::new(Mutex::new(often)))
    }

    pub(crate) fn set(&self, often: f64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = often;
    }

    fn often(&self) -> f64 {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end of a process at one of its next writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kill {
    /// After so many other writes.
    pub(crate) after: usize,
    /// Whether the API server carries that write out.
    pub(crate) carried_out: bool,
}

/// The connection of one process; clones share it.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) identity: String,
    pub(crate) api: Api,
    pub(crate) dice: Dice,
    pub(crate) trace: Trace,
    pub(crate) ledger: Ledger,
    pub(crate) interference: Interference,
    pub(crate) fault: Fault,
    pub(crate) stall: Stall,
    pub(crate) kill: Arc<Mutex<Option<Kill>>>,
    /// Becomes true when the process is killed at a write.
    pub(crate) killed: watch::Sender<bool>,
    /// Requests on their way.
    pub(crate) travels: TaskTracker,
}

/// The trouble of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    None,
    Refused(u16, &'static str),
    LostBefore,
    LostAfter,
}

impl Line {
    /// A client as the program makes it.
    pub(crate) fn client(&self) -> Client {
        let line = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let line = line.clone();
            async move { line.request(request).await }
        });
        with_history(Client::new(service, "default"))
    }

    async fn request(&self, request: Request<Body>) -> Result<Response<Sent>, tower::BoxError> {
        self.stall.over().await;
        let fence = request.extensions().get::<Fence>().cloned();
        let mut asked = Asked::read(request).await;
        // As `runtime::kube` does, after the queues of the client.
        if let Some(fence) = fence {
            fence.check()?;
        }
        if asked.is_write() {
            self.dies_at(&asked).await;
        }
        // It arrives even if the process stalls or ends meanwhile.
        let line = self.clone();
        let answer = self.travels.spawn(async move {
            sleep(line.dice.millis(LATENCY)).await;
            line.arrived(&mut asked)
        });
        let answer = answer.await??;
        sleep(self.dice.millis(LATENCY)).await;
        self.stall.over().await;
        let (code, body) = match answer {
            Answer::Object(code, object) => {
                let text = Bytes::from(object.to_string());
                (code, Full::new(text).boxed_unsync())
            }
            Answer::Watch(selector, from) => (200, self.watch(selector, from)),
        };
        Ok(Response::builder().status(code).body(body)?)
    }

    /// The answer of the API server, unless the connection breaks.
    fn arrived(&self, asked: &mut Asked) -> Result<Answer, tower::BoxError> {
        let trouble = self.trouble(asked);
        if trouble != Trouble::None {
            self.trace
                .emit(format!("{}: {} {trouble:?}", self.identity, asked.title()));
        }
        match trouble {
            Trouble::Refused(code, reason) => {
                let refusal = Refusal::new(code, reason, "refused by the simulation");
                Ok(Answer::Object(code, refusal.status()))
            }
            Trouble::LostBefore => Err("the connection broke".into()),
            Trouble::LostAfter => {
                self.carry_out(asked);
                Err("the connection broke".into())
            }
            Trouble::None => Ok(self.carry_out(asked)),
        }
    }

    /// Carries out a request, as a broken promise changes it.
    fn carry_out(&self, asked: &mut Asked) -> Answer {
        if asked.is_write() {
            if let Some(answer) = self.fault.instead_of(asked, &self.api) {
                return answer;
            }
            self.ledger.wrote(&self.identity, asked, &self.api);
        }
        let before = self.api.version();
        let answer = asked.carried_out(&self.api);
        let is_leaders = asked.key.2 == LEASE || asked.title().contains(LEASE);
        if asked.is_write() && (is_leaders || !asked.key.0.starts_with("leases")) {
            let (code, is_new) = match &answer {
                Answer::Object(code, _) => (*code, self.api.version() != before),
                Answer::Watch(..) => (200, false),
            };
            let mark = if is_new { "" } else { " (no change)" };
            let title = asked.title();
            self.trace
                .emit(format!("{}: {title} {code}{mark}", self.identity));
            if !is_leaders {
                self.ledger.counts(is_new);
            }
        }
        answer
    }

    /// Ends the process at this write, if it is the one.
    async fn dies_at(&self, asked: &Asked) {
        let carried_out = {
            let mut kill = self.kill.lock().unwrap_or_else(PoisonError::into_inner);
            match kill.as_mut() {
                None => return,
                Some(Kill { after, .. }) if *after > 0 => {
                    *after -= 1;
                    return;
                }
                Some(Kill { carried_out, .. }) => {
                    let carried_out = *carried_out;
                    *kill = None;
                    carried_out
                }
            }
        };
        let title = asked.title();
        self.trace.emit(format!(
            "{}: killed at {title}, carried out: {carried_out}",
            self.identity
        ));
        if carried_out {
            self.carry_out(&mut asked.clone());
        }
        self.killed.send_replace(true);
        std::future::pending::<()>().await;
    }

    /// Leases meet less trouble: otherwise no replica leads.
    fn trouble(&self, asked: &Asked) -> Trouble {
        let often = self.interference.often();
        let often = if asked.key.0.starts_with("leases") {
            often / 4.0
        } else {
            often
        };
        if !self.dice.probability(often) {
            return Trouble::None;
        }
        // The API server repeats a deletion by itself: a conflict is about the UID then.
        let conflict = match asked.method.as_str() {
            "DELETE" => Trouble::Refused(500, "InternalError"),
            _other => Trouble::Refused(409, "Conflict"),
        };
        *self.dice.pick(&[
            Trouble::Refused(403, "Forbidden"),
            conflict,
            Trouble::Refused(429, "TooManyRequests"),
            Trouble::Refused(500, "InternalError"),
            Trouble::LostBefore,
            Trouble::LostAfter,
        ])
    }

    fn watch(&self, selector: Selector, from: u64) -> Sent {
        let ends = Instant::now() + self.dice.millis(WATCH);
        let watch = Watching {
            line: self.clone(),
            versions: self.api.versions(),
            selector,
            from,
            ends,
            over: false,
        };
        StreamBody::new(watch.frames()).boxed_unsync()
    }
}

/// A watch on its way to a process.
struct Watching {
    line: Line,
    versions: watch::Receiver<u64>,
    selector: Selector,
    from: u64,
    ends: Instant,
    over: bool,
}

impl Watching {
    fn frames(self) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> {
        stream::unfold(self, |mut watch| async move {
            let lines = watch.next().await?;
            // The type comes first, as from the API server: a client decodes the object when it knows the type.
            let text = lines.iter().fold(String::new(), |text, it| {
                let (kind, object) = (&it["type"], &it["object"]);
                text + &format!("{{\"type\":{kind},\"object\":{object}}}\n")
            });
            Some((Ok(Frame::data(Bytes::from(text))), watch))
        })
    }

    /// The next events; none at its end.
    async fn next(&mut self) -> Option<Vec<Value>> {
        loop {
            if self.over {
                return None;
            }
            self.versions.mark_unchanged();
            let events = self.events();
            if !events.is_empty() {
                sleep(self.line.dice.millis(LATENCY)).await;
                self.line.stall.over().await;
                return Some(events);
            }
            let bookmark = Instant::now() + BOOKMARK;
            let ended = tokio::select! {
                changed = self.versions.changed() => changed.is_err(),
                () = tokio::time::sleep_until(self.ends.min(bookmark)) => Instant::now() >= self.ends,
            };
            self.line.stall.over().await;
            if ended {
                return self.end();
            }
            if Instant::now() >= bookmark {
                let metadata = json!({ "resourceVersion": self.from.to_string() });
                let object = json!({ "kind": "K", "apiVersion": "v1", "metadata": metadata });
                return Some(vec![json!({ "type": "BOOKMARK", "object": object })]);
            }
        }
    }

    fn events(&mut self) -> Vec<Value> {
        let Self { line, selector, .. } = self;
        let read = |change: &Change| {
            let event = event(change, selector)?;
            (!line.fault.omits(selector, &line.dice)).then_some(event)
        };
        let (version, events) = line.api.changes(self.from, read);
        self.from = version;
        events
    }

    /// A watch ends as if its time were over, or because its version has expired: then the client lists again.
    fn end(&mut self) -> Option<Vec<Value>> {
        self.over = true;
        if !self
            .line
            .dice
            .probability(self.line.interference.often().min(0.3) * 3.0)
        {
            return None;
        }
        let refusal = Refusal::new(410, "Expired", "too old resource version");
        Some(vec![json!({ "type": "ERROR", "object": refusal.status() })])
    }
}
