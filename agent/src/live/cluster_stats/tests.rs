use runtime::credentials::login::LoginFeed;
use runtime::parts::Parts;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::*;

fn census(applications: u64, resources: u64) -> Census {
    Census {
        applications,
        apis: 50,
        resources,
        server_version: Some("1.36".to_owned()),
    }
}

#[test]
fn cluster_stats_are_reported_on_change_and_throttled() {
    let stated = census(1, 100);
    let soon = Duration::from_secs(10);
    assert!(is_change(None, &stated, Duration::ZERO));
    assert!(!is_change(Some(&stated), &stated, REPORT_INTERVAL));
    assert!(is_change(Some(&stated), &census(2, 100), Duration::ZERO));
    assert!(!is_change(Some(&stated), &census(1, 101), soon));
    assert!(is_change(Some(&stated), &census(1, 101), REPORT_INTERVAL));
    let upgraded = Census {
        server_version: Some("1.37".to_owned()),
        ..stated.clone()
    };
    assert!(is_change(Some(&stated), &upgraded, soon));
}

#[test]
fn a_lasting_error_is_logged_at_its_begin_and_its_end() {
    let mut log = ReadLog::default();
    for (index, (is_read, is_turn)) in [
        // No password yet.
        (false, false),
        (true, false),
        // Any errors that last, also different ones.
        (false, false),
        (false, true),
        (false, false),
        (false, false),
        (true, true),
        (true, false),
        (false, false),
        (false, true),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(log.is_turn(is_read), is_turn, "read {index}");
    }
}

/// A redis that gives this answer for every key.
async fn redis(answer: &'static [u8], spawner: &Spawner) -> Redis {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    spawner.spawn_short("redis", async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            for answer in [&b"+PONG\r\n"[..], answer] {
                let mut command = [0; 1024];
                assert_ne!(socket.read(&mut command).await.unwrap(), 0);
                socket.write_all(answer).await.unwrap();
            }
        }
    });
    Redis::new(redis_discovery::Redis::new(address, LoginFeed::fixed(None)))
}

#[tokio::test]
async fn unusable_statistics_are_no_failure_of_redis() {
    let parts = Parts::new(CancellationToken::new());
    for answer in [
        &b"$1048577\r\n"[..],
        &b"$5\r\nvalue\r\n"[..],
        &b"$0\r\n\r\n"[..],
    ] {
        let read = read(&redis(answer, &parts.spawner()).await).await;
        assert!(matches!(read, Ok(None)), "{read:?}");
    }
    let refused = read(&redis(b"-ERR no\r\n", &parts.spawner()).await).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
}
