//! The tunnel with the level `applications`: only objects of Applications, and their Events, are shown.

use argocd::Meta;
use live::ui_access::UiAccess;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::agent_tunnel::{USER, Window, refused};
use super::operate::{FRONT, LOCAL, POD, SECRET, WEB, kinds, object, send, shop, tracked};
use super::principal::Carrier;

const LEVEL: UiAccess = UiAccess::Applications;
const EVENTS: &str = "/api/v1/namespaces/shop/events";

/// The code and the body of a read.
async fn get(agent_tunnel: &mut Carrier, target: &str) -> (u16, Value) {
    send(agent_tunnel, "GET", target, "", &Value::Null).await
}

fn put(window: &Window, path: &str, object: Value) {
    let mut objects = window.api.objects.lock().unwrap();
    objects.insert(path.to_owned(), object);
}

#[tokio::test]
async fn applications_level_shows_objects_of_applications() {
    let (window, mut agent_tunnel) = shop(LEVEL).await;
    for (target, name) in [(FRONT, "front"), (POD, "front-1-a")] {
        let (code, shown) = get(&mut agent_tunnel, target).await;
        assert_eq!((code, Meta::of(&shown).name()), (200, name), "{target}");
    }
    // Its annotation names the Application, which does not list it.
    let message = refused(&mut agent_tunnel, "GET", LOCAL).await;
    for part in [
        "belongs to no Application",
        "UI_ACCESS is applications",
        "to read",
    ] {
        assert!(message.contains(part), "{message}");
    }
    let (code, _) = get(&mut agent_tunnel, &format!("{LOCAL}-gone")).await;
    assert_eq!(code, 404);
    let asked = window.asked().len();
    for (method, target) in [
        ("GET", SECRET),
        ("GET", "/apis/apps/v1/namespaces/shop/deployments"),
        ("GET", "/api/v1/namespaces/shop/pods?watch=true"),
        ("GET", EVENTS),
        ("DELETE", POD),
        ("PATCH", FRONT),
    ] {
        refused(&mut agent_tunnel, method, target).await;
    }
    assert_eq!(window.asked().len(), asked, "the API got no request");
    assert!(window.asked().iter().all(|it| it.starts_with(USER)));
}

/// A second look could find another object of the name.
#[tokio::test]
async fn the_object_of_the_answer_itself_is_judged() {
    let (window, mut agent_tunnel) = shop(LEVEL).await;
    let (code, _) = get(&mut agent_tunnel, FRONT).await;
    assert_eq!(code, 200);
    let front = format!("{USER} GET {FRONT}");
    let looks = window.asked();
    assert_eq!(looks.iter().filter(|it| **it == front).count(), 1);
    let status = format!("{FRONT}/status");
    let other = tracked(object("apps/v1", "Deployment", "local", "u5"));
    put(&window, &status, other);
    refused(&mut agent_tunnel, "GET", &status).await;
    let own = tracked(object("apps/v1", "Deployment", "front", "u1"));
    put(&window, &status, own);
    let (code, shown) = get(&mut agent_tunnel, &status).await;
    assert_eq!((code, Meta::of(&shown).uid()), (200, "u1"));
}

#[tokio::test]
async fn a_replaced_owner_shows_no_object() {
    let (window, mut agent_tunnel) = shop(LEVEL).await;
    let newer = tracked(object("apps/v1", "Deployment", "front", "u9"));
    put(&window, FRONT, newer);
    refused(&mut agent_tunnel, "GET", POD).await;
    let (code, _) = get(&mut agent_tunnel, FRONT).await;
    assert_eq!(code, 200);
    // A user of the cluster created the Application, not the hub.
    let mut web = window.api.objects.lock().unwrap()[WEB].clone();
    web["metadata"]["annotations"] = json!({});
    put(&window, WEB, web);
    refused(&mut agent_tunnel, "GET", FRONT).await;
}

#[tokio::test]
async fn applications_level_shows_logs_of_their_pods_only() {
    let (window, mut agent_tunnel) = shop(LEVEL).await;
    let (emits, log) = mpsc::channel(1);
    *window.api.log.lock().unwrap() = Some(log);
    let stray = "/api/v1/namespaces/shop/pods/stray";
    put(&window, stray, tracked(object("v1", "Pod", "stray", "u8")));
    refused(&mut agent_tunnel, "GET", &format!("{stray}/log")).await;
    emits.send(Ok("one".into())).await.unwrap();
    drop(emits);
    let (code, _) = get(&mut agent_tunnel, &format!("{POD}/log")).await;
    assert_eq!(code, 200);
    let logs = window.asked();
    let logs: Vec<_> = logs.iter().filter(|it| it.ends_with("/log")).collect();
    assert_eq!(logs, [&format!("{USER} GET {POD}/log")]);
}

/// An Event with this name, about an object.
fn event(name: &str, involved: &Value) -> Value {
    json!({ "metadata": { "name": name }, "involvedObject": involved })
}

/// The reference to an object in an Event.
fn of(version: &str, kind: &str, namespace: &str, name: &str, uid: &str) -> Value {
    json!({ "apiVersion": version, "kind": kind, "namespace": namespace, "name": name, "uid": uid })
}

/// Reads the Events of the objects with this field; returns the names of those that are shown.
async fn events(agent_tunnel: &mut Carrier, path: &str, field: &str) -> Vec<String> {
    let target = format!("{path}?fieldSelector=involvedObject.{field}");
    let (code, list) = get(agent_tunnel, &target).await;
    assert_eq!((code, &list["kind"]), (200, &json!("EventList")), "{list}");
    let items = list["items"].as_array().unwrap();
    items
        .iter()
        .map(|it| Meta::of(it).name().to_owned())
        .collect()
}

#[tokio::test]
async fn applications_level_filters_events() {
    let (window, mut agent_tunnel) = shop(LEVEL).await;
    put(
        &window,
        "/api/v1",
        kinds(&[("Pod", "pods"), ("Secret", "secrets")]),
    );
    let pod = of("v1", "Pod", "shop", "front-1-a", "u3");
    let mut no_uid = pod.clone();
    no_uid["uid"] = json!("");
    let all = [
        ("pulled", pod.clone()),
        ("earlier-pod", of("v1", "Pod", "shop", "front-1-a", "u0")),
        ("local", of("apps/v1", "Deployment", "shop", "local", "u5")),
        ("missing", of("v1", "Pod", "shop", "gone", "u3")),
        (
            "other-kind",
            of("example.org/v1", "Pod", "shop", "front-1-a", "u3"),
        ),
        ("no-version", of("../x", "Pod", "shop", "front-1-a", "u3")),
        (
            "long-version",
            of(&"v".repeat(1 << 16), "Pod", "shop", "front-1-a", "u3"),
        ),
        ("no-uid", no_uid),
        ("started", pod),
        ("scaled", of("apps/v1", "Deployment", "shop", "front", "u1")),
    ];
    let all = all.map(|(name, involved)| event(name, &involved));
    put(
        &window,
        EVENTS,
        json!({ "kind": "EventList", "items": all }),
    );
    let shown = events(&mut agent_tunnel, EVENTS, "name%3Dfront-1-a").await;
    assert_eq!(shown, ["pulled", "started", "scaled"]);
    let pods = format!("{USER} GET {POD}");
    let looks = window.asked();
    let looks = looks.iter().filter(|it| **it == pods).count();
    assert_eq!(looks, 2, "one for each UID");
}

#[tokio::test]
async fn applications_level_shows_events_of_served_applications() {
    let (window, mut agent_tunnel) = shop(LEVEL).await;
    let path = "/api/v1/namespaces/argocd/events";
    let web = |uid| of("argoproj.io/v1alpha1", "Application", "argocd", "web", uid);
    let all = [event("synced", &web("u10")), event("earlier", &web("u0"))];
    put(&window, path, json!({ "kind": "EventList", "items": all }));
    let mut application = window.api.objects.lock().unwrap()[WEB].clone();
    application["metadata"]["uid"] = json!("u10");
    put(&window, WEB, application.clone());
    let shown = events(&mut agent_tunnel, path, "name%3Dweb").await;
    assert_eq!(shown, ["synced"]);
    // Not one of the hub.
    application["metadata"]["annotations"] = json!({});
    put(&window, WEB, application);
    let shown = events(&mut agent_tunnel, path, "name%3Dweb").await;
    assert!(shown.is_empty(), "{shown:?}");
}

/// Argo CD lists the Events of such an object in all namespaces.
#[tokio::test]
async fn events_of_cluster_scoped_objects_are_filtered() {
    let (window, mut agent_tunnel) = shop(LEVEL).await;
    let mut namespaces = kinds(&[("Namespace", "namespaces")]);
    namespaces["resources"][0]["namespaced"] = json!(false);
    put(&window, "/api/v1", namespaces);
    for (name, uid) in [("shop", "u20"), ("other", "u21")] {
        let mut namespace = tracked(object("v1", "Namespace", name, uid));
        namespace["metadata"]["namespace"] = json!("");
        put(&window, &format!("/api/v1/namespaces/{name}"), namespace);
    }
    let mut web = window.api.objects.lock().unwrap()[WEB].clone();
    web["status"]["resources"] = json!([{ "kind": "Namespace", "name": "shop" }]);
    put(&window, WEB, web);
    let path = "/api/v1/events";
    let all = [
        event("listed", &of("v1", "Namespace", "", "shop", "u20")),
        event("foreign", &of("v1", "Namespace", "", "other", "u21")),
    ];
    put(&window, path, json!({ "kind": "EventList", "items": all }));
    let shown = events(&mut agent_tunnel, path, "uid%3Du20").await;
    assert_eq!(shown, ["listed"]);
    let without_uid = format!("{path}?fieldSelector=involvedObject.name%3Dshop");
    refused(&mut agent_tunnel, "GET", &without_uid).await;
}
