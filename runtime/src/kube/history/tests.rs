use std::sync::{Arc, Mutex};

use ::kube::Api;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::kube::{Event, Watch, watch_trimmed};

fn asked(uri: &str) -> Option<(String, u64)> {
    let question = Question::about(&Method::GET, &uri.parse().unwrap());
    question.map(|question| (question.uri.to_string(), question.from))
}

#[test]
fn version_is_read_with_the_selection_of_the_resumed_watch() {
    assert_eq!(
        asked(
            "/api/v1/namespaces/ns/secrets?&watch=true&timeoutSeconds=290&fieldSelector=metadata.name%3Da\
             &labelSelector=b%2Cc&allowWatchBookmarks=true&resourceVersion=17"
        ),
        Some((
            "/api/v1/namespaces/ns/secrets?fieldSelector=metadata.name%3Da&labelSelector=b%2Cc&limit=1"
                .to_owned(),
            17
        ))
    );
}

#[test]
fn version_is_read_for_resumed_watches_only() {
    for uri in [
        "/api/v1/secrets",
        "/api/v1/secrets?limit=100&resourceVersion=17",
        "/api/v1/secrets?watch=true",
        "/api/v1/secrets?watch=true&resourceVersion=0",
        "/api/v1/secrets?watch=true&resourceVersion=seventeen",
        "/api/v1/secrets?watch=true&resourceVersion=17&sendInitialEvents=true",
        "/api/v1/secrets?watch=false&resourceVersion=17",
    ] {
        assert_eq!(asked(uri), None, "{uri}");
    }
    let uri = "/api/v1/secrets?watch=true&resourceVersion=17"
        .parse()
        .unwrap();
    assert_eq!(Question::about(&Method::DELETE, &uri), None);
}

/// An API server with one object, whose etcd can be restored.
#[derive(Clone, Default)]
struct Fake {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    version: u64,
    /// The versions from which watches started.
    watched: Vec<u64>,
    refuses_lists: bool,
}

impl Fake {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
    }

    fn client(&self) -> Client {
        let api = self.clone();
        let serve = move |request: Request<Body>| {
            let api = api.clone();
            async move {
                // Let time advance.
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                Ok::<_, ::kube::Error>(api.answer(request.uri()))
            }
        };
        with_history(Client::new(service_fn(serve), "default"))
    }

    fn answer(&self, uri: &Uri) -> Response<Body> {
        let mut state = self.state.lock().unwrap();
        let metadata = |version: u64| json!({ "name": "it", "namespace": "ns", "uid": "u", "resourceVersion": version.to_string() });
        if uri
            .query()
            .is_some_and(|query| query.contains("watch=true"))
        {
            let from = Question::about(&Method::GET, uri).map_or(0, |question| question.from);
            state.watched.push(from);
            // An empty watch that ends at once, as after its timeout.
            return Response::new(Body::empty());
        }
        if state.refuses_lists {
            let mut answer = Response::new(Body::from(b"{}".to_vec()));
            *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            return answer;
        }
        let list = json!({
            "apiVersion": "v1", "kind": "ConfigMapList",
            "metadata": { "resourceVersion": state.version.to_string() },
            "items": [{ "metadata": metadata(state.version) }],
        });
        Response::new(Body::from(list.to_string().into_bytes()))
    }
}

#[tokio::test(start_paused = true)]
async fn watch_lists_again_after_an_etcd_restore() {
    let api = Fake::default();
    api.change(|state| state.version = 20);
    let token = CancellationToken::new();
    let (sender, mut events) = tokio::sync::mpsc::channel(64);
    let watch = Watch::<ConfigMap>::new(Api::namespaced(api.client(), "ns"));
    let watching = watch_trimmed(watch, token.clone(), move |event| {
        let word = match event {
            Event::Applied { object, listed } => {
                let version = object.metadata.resource_version.unwrap_or_default();
                format!("{}{version}", if listed { "=" } else { "+" })
            }
            Event::Deleted(gone) => format!("-{}", gone.name),
            Event::Synced => "synced".to_owned(),
            Event::Rewound => "rewound".to_owned(),
        };
        sender.try_send(word).unwrap();
    });
    let looking = async {
        let mut words = vec![];
        while words.len() < 2 {
            words.extend(events.recv().await);
        }
        let a_while = || tokio::time::sleep(std::time::Duration::from_mins(1));
        a_while().await;
        api.change(|state| {
            assert!(state.watched.contains(&20), "{:?}", state.watched);
            state.refuses_lists = true;
        });
        a_while().await;
        api.change(|state| {
            state.version = 10;
            state.watched.clear();
        });
        // No watch resumes before the version of the API is known.
        a_while().await;
        api.change(|state| {
            assert!(state.watched.is_empty(), "{:?}", state.watched);
            state.refuses_lists = false;
        });
        while words.len() < 5 {
            words.extend(events.recv().await);
        }
        a_while().await;
        token.cancel();
        words
    };
    let ((), words) = futures::join!(watching, looking);
    assert_eq!(words, ["=20", "synced", "rewound", "=10", "synced"]);
    let state = api.state.lock().unwrap();
    assert!(!state.watched.is_empty());
    assert!(
        state.watched.iter().all(|from| *from == 10),
        "{:?}",
        state.watched
    );
}

#[test]
fn version_that_is_no_number_stops_no_watch() {
    assert_eq!(version(b"{}"), None);
    assert_eq!(version(br#"{"metadata":{"resourceVersion":"abc"}}"#), None);
    assert_eq!(version(br#"{"metadata":{"resourceVersion":"7"}}"#), Some(7));
}
