//! Writes that an API server, or an admission webhook of it, refuses for a time.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use argocd::Patch;
use serde_json::json;
use tokio::time::Instant;

use crate::dice::Dice;

/// An answer to a write that is not carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    TooLarge,
    Invalid,
    Busy,
    Denied,
}

impl Answer {
    const ALL: [Self; 4] = [Self::TooLarge, Self::Invalid, Self::Busy, Self::Denied];
    /// Those for which a program does not try the same write again soon.
    pub(crate) const FINAL: [Self; 2] = [Self::TooLarge, Self::Invalid];

    pub(crate) const fn is_final(self) -> bool {
        matches!(self, Self::TooLarge | Self::Invalid)
    }

    const fn code(self) -> u16 {
        match self {
            Self::TooLarge => 413,
            Self::Invalid => 422,
            Self::Busy => 429,
            Self::Denied => 403,
        }
    }

    pub(crate) const fn message(self) -> &'static str {
        match self {
            Self::TooLarge => "Request entity too large: limit is 3145728",
            Self::Invalid => "spec.source.path: Invalid value",
            Self::Busy => "too many requests, please try again later",
            Self::Denied => "admission webhook \"policy.example.com\" denied the request",
        }
    }

    /// The error that the client makes of it.
    pub(crate) fn error(self) -> kube::Error {
        let mut status = json!({
            "status": "Failure", "code": self.code(), "message": self.message(), "reason": "Refused",
        });
        match self {
            Self::Invalid => {
                let cause = json!({ "field": "spec.source.path", "reason": "FieldValueInvalid" });
                status["details"] = json!({ "causes": [cause] });
            }
            Self::Busy => status["details"] = json!({ "retryAfterSeconds": 1 }),
            Self::TooLarge | Self::Denied => {}
        }
        let status = serde_json::from_value(status).expect("a status");
        kube::Error::Api(Box::new(status))
    }
}

/// Which writes are refused.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) answer: Answer,
    /// Only writes of objects of this name.
    pub(crate) name: Option<String>,
    /// How often such a write is refused, of one.
    pub(crate) often: f64,
    pub(crate) until: Instant,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            answer,
            name,
            often,
            ..
        } = self;
        write!(f, "{answer:?}, {often} of writes of {name:?}")
    }
}

impl Refusal {
    pub(crate) fn drawn(dice: &Dice, names: &[&str]) -> Self {
        let seconds = *dice.pick(&[2, 20, 120]);
        Self {
            answer: *dice.pick(&Answer::ALL),
            name: dice
                .probability(0.5)
                .then(|| (*dice.pick(names)).to_owned()),
            often: *dice.pick(&[0.3, 1.0]),
            until: Instant::now() + Duration::from_secs(seconds),
        }
    }
}

/// The refusals of one API server; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusals(Arc<Mutex<Option<Refusal>>>);

impl Refusals {
    pub(crate) fn set(&self, refusal: Option<Refusal>) {
        *self.lock() = refusal;
    }

    /// The answer to a write of an object of this name, if it is refused.
    pub(crate) fn of(&self, name: &str, dice: &Dice) -> Option<Answer> {
        let mut current = self.lock();
        current.take_if(|refusal| refusal.until <= Instant::now());
        let refusal = current.as_ref()?;
        let concerns = refusal.name.as_ref().is_none_or(|it| it == name);
        (concerns && dice.probability(refusal.often)).then_some(refusal.answer)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Refusal>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of the object of a write, and whether the write is a JSON patch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write<'a> {
    pub(crate) name: &'a str,
    pub(crate) is_json: bool,
}

impl<'a> Write<'a> {
    pub(crate) const fn of(name: &'a str) -> Self {
        Self {
            name,
            is_json: false,
        }
    }

    pub(crate) const fn patch(name: &'a str, patch: &Patch) -> Self {
        let is_json = matches!(patch, Patch::Json(_));
        Self { name, is_json }
    }
}
