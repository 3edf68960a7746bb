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
pub struct Story {
    /// Its name: module and function, as `stringify!` says them.
    pub name: &'static str,
    /// The environment variable without which it cannot be told; then it is reported as ignored, by name.
    pub needs: Option<&'static str>,
    /// Tells it.
    pub tell: fn(Arc<Lab>) -> BoxFuture<'static, Result<()>>,
}

impl Story {
    /// Its name as tests are called: `module::function`.
    fn title(&self) -> String {
        self.name.replace(' ', "")
    }

    /// What it needs and does not have.
    fn lacks(&self) -> Option<&'static str> {
        self.needs
            .filter(|variable| std::env::var_os(variable).is_none_or(|value| value.is_empty()))
    }
}

impl std::fmt::Debug for Story {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Story")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Stories that want the same kind of lab.
#[derive(Clone, Debug)]
pub struct Chapter {
    /// What the lab has.
    pub options: Options,
    /// Whether the stories leave the lab as they found it, so that the next one can have it.
    pub shared: bool,
    /// The stories, in the order they are told.
    pub stories: Vec<Story>,
}

impl Chapter {
    /// Stories that share one lab: each uses names of its own, and heals what it breaks.
    pub const fn shared(options: Options, stories: Vec<Story>) -> Self {
        Self {
            options,
            shared: true,
            stories,
        }
    }

    /// Stories that each get a lab to themselves.
    pub const fn alone(options: Options, stories: Vec<Story>) -> Self {
        Self {
            options,
            shared: false,
            stories,
        }
    }
}

/// A [`Story`] of the name and the body of an async function: `story!(base::an_api_restart_keeps_data)`.
#[macro_export]
macro_rules! story {
    ($($path:ident)::+) => {
        $crate::story::Story {
            name: stringify!($($path)::+),
            needs: None,
            tell: |lab| Box::pin($($path)::+(lab)),
        }
    };
}
