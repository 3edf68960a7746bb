//! Stories: tests that are told on a lab.
//!
//! A story is an `async fn(Arc<Lab>) -> Result<()>`, registered in a chapter of `tests/e2e/main.rs`. The runner
//! enters the lab's namespaces once, tells stories one after the other, and keeps a lab for the next story that wants
//! the same one. It does so in several processes at once, each with a part of the chapters. A story that fails leaves its world behind: in print, and whole in `target/lab/worlds`; the next
//! story then gets a new lab.

mod parts;
mod runner;

use std::sync::Arc;

use anyhow::Result;
use futures::future::BoxFuture;

use crate::{Lab, Options};

pub use runner::main;

/// One story.
#[derive(Clone, Copy)]
pub struct E2eTest {
    /// Its name: module and function, as `stringify!` says them.
    pub name: &'static str,
    /// The environment variable without which it cannot be told; then it is reported as ignored, by name.
    pub needs: Option<&'static str>,
    /// Tells it.
    pub run: fn(Arc<Lab>) -> BoxFuture<'static, Result<()>>,
}

impl E2eTest {
    /// Its name as tests are called: `module::function`.
    fn title(&self) -> String {
        self.name.replace(' ', "")
    }

    /// What it needs and does not have.
    fn is_missing(&self) -> Option<&'static str> {
        self.needs
            .filter(|variable| std::env::var_os(variable).is_none_or(|value| value.is_empty()))
    }
}

impl std::fmt::Debug for E2eTest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Story")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Stories that want the same kind of lab.
#[derive(Clone, Debug)]
pub struct TestGroup {
    /// What the lab has.
    pub options: Options,
    /// Whether the stories leave the lab as they found it, so that the next one can have it.
    pub shared: bool,
    /// The stories, in the order they are told.
    pub e2e_tests: Vec<E2eTest>,
}

impl TestGroup {
    /// Stories that share one lab: each uses names of its own, and heals what it breaks.
    pub const fn shared(options: Options, e2e_tests: Vec<E2eTest>) -> Self {
        Self {
            options,
            shared: true,
            e2e_tests,
        }
    }

    /// Stories that each get a lab to themselves.
    pub const fn alone(options: Options, e2e_tests: Vec<E2eTest>) -> Self {
        Self {
            options,
            shared: false,
            e2e_tests,
        }
    }
}

/// A [`Story`] of the name and the body of an async function: `story!(base::an_api_restart_keeps_data)`.
#[macro_export]
macro_rules! e2e_test {
    ($($path:ident)::+) => {
        $crate::e2e_test::E2eTest {
            name: stringify!($($path)::+),
            needs: None,
            run: |lab| Box::pin($($path)::+(lab)),
        }
    };
}
