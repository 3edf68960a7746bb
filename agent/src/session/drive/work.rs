//! What the principal says is carried out here, a bounded number of pieces at once.

use std::time::Duration;

use futures::FutureExt as _;
use protocol::{Target, Verdict};
use runtime::trace::{self, Span};
use tokio::time::Instant;

use super::{Drive, Moving};
use crate::live::go_compat::{self, Answerer};
use crate::sync::spans;

/// Pieces of work at once. The API server's answer takes a few milliseconds, so this is thousands a
/// second.
pub(super) const HANDS: usize = 16;
/// How long our own API's word holds that it knows us. Without it, an agent whose watches are refused would keep its
/// session and have nothing to say in it.
const KNOWN_FOR: Duration = Duration::from_mins(1);

impl<'a> Moving<'a> {
    /// Starts what can be started; resync questions are answered at once.
    pub(super) fn begin_work(&mut self, drive: &Drive<'a>) {
        let is_time = self.known.elapsed() >= KNOWN_FOR;
        if self.knowing.is_none() && (std::mem::take(&mut self.in_doubt) || is_time) {
            let replica = drive.replica;
            self.knowing = Some(replica.is_known().boxed());
            self.known = Instant::now();
        }
        while self.working.len() < HANDS {
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
