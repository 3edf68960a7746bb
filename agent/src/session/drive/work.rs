//! Starts the work that the principal's messages require, with bounded concurrency.

use std::time::Duration;

use futures::FutureExt as _;
use protocol::{Target, Verdict};
use runtime::trace::{self, Span};
use tokio::time::Instant;

use super::{Drive, Moving};
use crate::live::go_compat::{self, Answerer};
use crate::sync::spans;

/// Concurrent pieces of work. The API server answers in a few milliseconds, so this allows thousands a
/// second.
pub(super) const CONCURRENT_WORK: usize = 16;
/// How often the agent checks that the cluster's API accepts its identity. Without this check, an agent with
/// unauthorized watches would keep its session and report nothing.
const IDENTITY_CHECK: Duration = Duration::from_mins(1);

impl<'a> Moving<'a> {
    /// Starts waiting work up to the limit; resync questions are answered at once.
    pub(super) fn begin_work(&mut self, drive: &Drive<'a>) {
        let is_time = self.identity_checked.elapsed() >= IDENTITY_CHECK;
        if self.identity_check.is_none() && (std::mem::take(&mut self.in_doubt) || is_time) {
            let replica = drive.replica;
            self.identity_check = Some(replica.is_known().boxed());
            self.identity_checked = Instant::now();
        }
        while self.working.len() < CONCURRENT_WORK {
            let now = self.begun.elapsed();
            let Some(work) = self.session.next_work(now) else {
                break;
            };
            if work.event.target == Target::Resync {
                let verdict = drive.answer_resync(self, &work.event);
                self.session.finished(work.id, verdict, now);
                continue;
            }
            if go_compat::is_one(&work.event) {
                let answerer = Answerer {
                    api_handler: drive.api_handler,
                    welcome: &self.welcome,
                };
                if let Some(answer) = self.questions.take(answerer, &work.event) {
                    self.session.emit(answer);
                }
                self.session.finished(work.id, Verdict::Done, now);
                continue;
            }
            let (replica, welcome) = (drive.replica, self.welcome.clone());
            let span = spans::received(&work.event, replica.mode(), &welcome);
            self.working.push(
                async move {
                    let context = span.as_ref().map(Span::context);
                    let done = trace::within(context, replica.carry_out(&work.event, &welcome));
                    let verdict = done.await;
                    trace::finish_span(span, protocol::trace::outcome(&verdict));
                    (work.id, verdict)
                }
                .boxed(),
            );
        }
    }
}
