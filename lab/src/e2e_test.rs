//! End-to-end tests that run on a lab.
//!
//! A test is an `async fn(Arc<Lab>) -> Result<()>`, registered in a group of `tests/e2e/main.rs`. The runner enters
//! the lab's namespaces once, runs tests one after the other, and keeps a lab for the next test of the same group.
//! Several processes do this at once, each with a part of the groups; recorded durations balance the parts. After a
//! failed test the runner prints the state of the lab, saves all of it in `target/lab/worlds`, and gives the next test
//! a new lab.

mod durations;
mod lowest;
mod parts;
mod runner;

use std::sync::Arc;

use anyhow::Result;
use futures::future::BoxFuture;

use crate::{Lab, Options};

pub use runner::main;

/// One end-to-end test.
#[derive(Clone, Copy)]
pub struct E2eTest {
    /// Module and function.
    pub name: &'static str,
    /// The environment variable that it needs. Without it the runner reports the test as ignored.
    pub needs: Option<&'static str>,
    /// Runs it on a lab.
    pub run: fn(Arc<Lab>) -> BoxFuture<'static, Result<()>>,
}

impl E2eTest {
    /// Its name on the command line: `module::function`.
    pub(crate) fn title(&self) -> String {
        self.name.replace(' ', "")
    }

    /// Why it cannot run here: a variable that is not set, or an old version of another project.
    pub(crate) fn obstacle(&self) -> Option<String> {
        let is_unset =
            |variable: &&str| std::env::var_os(variable).is_none_or(|value| value.is_empty());
        let missing = self.needs.filter(is_unset);
        let missing = missing.map(|variable| format!("needs `{variable}`"));
        missing.or_else(|| lowest::too_old(&self.title()).map(str::to_owned))
    }
}

impl std::fmt::Debug for E2eTest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("E2eTest")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Tests that need the same options.
#[derive(Clone, Debug)]
pub struct TestGroup {
    /// The options of the lab.
    pub options: Options,
    /// Whether the tests restore the lab, so that the next one can use it.
    pub shared: bool,
    /// The tests, in the order they run.
    pub e2e_tests: Vec<E2eTest>,
}

impl TestGroup {
    /// Tests that share one lab: each uses names of its own, and repairs everything it breaks.
    pub const fn shared(options: Options, e2e_tests: Vec<E2eTest>) -> Self {
        Self {
            options,
            shared: true,
            e2e_tests,
        }
    }

    /// Tests that each get a lab to themselves.
    pub const fn alone(options: Options, e2e_tests: Vec<E2eTest>) -> Self {
        Self {
            options,
            shared: false,
            e2e_tests,
        }
    }

    /// Its name in the table of durations: that of its first test.
    fn name(&self) -> String {
        let first = self.e2e_tests.first();
        first.map(E2eTest::title).unwrap_or_default()
    }
}

/// An [`E2eTest`] of an async function: `e2e_test!(base::an_api_restart_keeps_data)`.
#[macro_export]
macro_rules! e2e_test {
    ($first:ident $(:: $path:ident)*) => {
        $crate::e2e_test::E2eTest {
            // A whole path as one `stringify!` has a line break if it is long.
            name: concat!(stringify!($first) $(, "::", stringify!($path))*),
            needs: None,
            run: |lab| Box::pin($first$(::$path)*(lab)),
        }
    };
}
