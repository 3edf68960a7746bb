use super::*;

const DRAIN: Duration = Duration::from_secs(5);

/// The name and the nice value of the thread of this spawner's tasks.
async fn place(spawner: &Spawner) -> (String, i32) {
    let (send, receive) = tokio::sync::oneshot::channel();
    spawner.spawn_short("looks", async move {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or_default().to_owned();
        let nice = rustix::process::nice(0).unwrap();
        drop(send.send((name, nice)));
    });
    receive.await.unwrap()
}

#[tokio::test]
async fn background_tasks_have_nicer_threads_and_drain_with_all_others() {
    let token = CancellationToken::new();
    let parts = Parts::with_background(token.clone()).unwrap();
    let spawner = parts.spawner();
    let (_, usual) = place(&spawner).await;
    let (name, nice) = place(&spawner.background().child()).await;
    assert_eq!((name.as_str(), nice), ("background", (usual + 10).min(19)));

    let asked = spawner.token().clone();
    spawner
        .background()
        .spawn("patient", async move { asked.cancelled().await });
    token.cancel();
    assert!(parts.run_until_stopped(DRAIN).await.is_ok());
}

#[tokio::test]
async fn vital_tasks_run_while_all_other_threads_are_blocked() {
    let token = CancellationToken::new();
    let parts = Parts::new(token.clone()).with_vital().unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    let asked = token.clone();
    parts.spawner().vital().spawn("renewal", async move {
        drop(send.send(std::thread::current().name().map(ToOwned::to_owned)));
        asked.cancelled().await;
    });
    // Blocks the only thread of this test's runtime.
    let name = receive.recv_timeout(DRAIN).unwrap();
    assert_eq!(name.as_deref(), Some("vital"));
    token.cancel();
    assert!(parts.run_until_stopped(DRAIN).await.is_ok());
}

#[tokio::test]
async fn background_tasks_run_as_usual_without_a_background_runtime() {
    let parts = Parts::new(CancellationToken::new());
    let spawner = parts.spawner();
    assert_eq!(place(&spawner).await, place(&spawner.background()).await);
}

#[tokio::test(start_paused = true)]
async fn a_part_that_ends_early_ends_the_process_and_is_named() {
    let parts = Parts::new(CancellationToken::new());
    let token = parts.spawner().token().clone();
    parts.spawn("patient", async move { token.cancelled().await });
    parts.spawn("hasty", async {});
    let stopped = parts.run_until_stopped(DRAIN).await.unwrap_err();
    assert!(matches!(stopped, Stopped::Early { name } if name == "hasty"));
}

#[tokio::test(start_paused = true)]
async fn failure_of_a_part_has_its_cause() {
    let parts = Parts::new(CancellationToken::new());
    parts.spawn("weak", async {
        Err::<(), _>(io::Error::other("disk full"))
    });
    let stopped = parts.run_until_stopped(DRAIN).await.unwrap_err();
    assert_eq!(
        Chain(&stopped).to_string(),
        "part \"weak\" failed: disk full"
    );
}

#[tokio::test(start_paused = true)]
async fn panic_in_a_short_task_ends_no_other_task() {
    let token = CancellationToken::new();
    let parts = Parts::new(token.clone());
    let spawner = parts.spawner();
    spawner.spawn_short("connection", async {
        let nothing = std::env::args().nth(usize::MAX);
        assert!(nothing.is_some(), "bad peer");
    });
    spawner.spawn_short("stopper", async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        token.cancel();
    });
    assert!(parts.run_until_stopped(DRAIN).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn task_that_does_not_drain_is_aborted() {
    let token = CancellationToken::new();
    let parts = Parts::new(token.clone());
    parts.spawn("deaf", std::future::pending::<()>());
    token.cancel();
    assert!(parts.run_until_stopped(DRAIN).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_child_stops_without_its_parent() {
    let token = CancellationToken::new();
    let parts = Parts::new(token.clone());
    let child = parts.spawner().child();
    let asked = child.token().clone();
    child.spawn("session", async move { asked.cancelled().await });
    child.token().cancel();
    assert!(!token.is_cancelled());
    token.cancel();
    assert!(parts.run_until_stopped(DRAIN).await.is_ok());
}
