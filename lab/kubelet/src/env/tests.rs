use serde_json::{Value, json};

use super::*;
use crate::objects::fake::Few;

fn pod(container: &Value, security: &Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": "p", "namespace": "ns" },
        "spec": { "containers": [container], "securityContext": security },
    }))
    .unwrap()
}

fn parse(container: &Value) -> Container {
    serde_json::from_value(container.clone()).unwrap()
}

fn run(container: &Value, image: &Image, look: &Few) -> Result<Process, Refused> {
    let pod = pod(container, &json!({}));
    let container = parse(container);
    let addresses = Addresses {
        pod: "10.244.1.2".to_owned(),
        host: "10.244.1.1".to_owned(),
    };
    process(&pod, &container, image, look, &addresses)
}

fn image() -> Image {
    Image {
        entrypoint: vec!["/entry".to_owned()],
        cmd: vec!["default".to_owned()],
        ..Image::default()
    }
}

#[test]
fn command_and_args_take_the_place_of_entrypoint_and_cmd() {
    let argv = |container| run(&container, &image(), &Few::default()).unwrap().argv;
    assert_eq!(argv(json!({ "name": "c" })), ["/entry", "default"]);
    assert_eq!(argv(json!({ "name": "c", "args": ["a"] })), ["/entry", "a"]);
    assert_eq!(argv(json!({ "name": "c", "command": ["/x"] })), ["/x"]);
    assert_eq!(
        argv(json!({ "name": "c", "command": ["/x"], "args": ["a"] })),
        ["/x", "a"]
    );
}

#[test]
fn variables_refer_to_earlier_ones_and_to_objects() {
    let look = Few::default()
        .config_map("ns/c", json!({ "data": { "level": "debug" } }))
        .secret("ns/s", json!({ "data": { "password": "cHc=" } }));
    let container = json!({ "name": "c", "args": ["--ip=$(IP)", "$$(IP)", "$(NOPE)"], "env": [
        { "name": "IP", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } },
        { "name": "URL", "value": "http://$(IP):80" },
        { "name": "LEVEL", "valueFrom": { "configMapKeyRef": { "name": "c", "key": "level" } } },
        { "name": "PW", "valueFrom": { "secretKeyRef": { "name": "s", "key": "password" } } },
        { "name": "MAYBE", "valueFrom": { "secretKeyRef": { "name": "s", "key": "no", "optional": true } } },
    ]});
    let process = run(&container, &image(), &look).unwrap();
    assert_eq!(
        process.argv,
        ["/entry", "--ip=10.244.1.2", "$(IP)", "$(NOPE)"]
    );
    let get = |name| process.env.get(name).map(String::as_str);
    assert_eq!(get("URL"), Some("http://10.244.1.2:80"));
    assert_eq!(get("LEVEL"), Some("debug"));
    assert_eq!(get("PW"), Some("pw"));
    assert_eq!(get("MAYBE"), None);
    assert_eq!(get("HOSTNAME"), Some("p"));
}

#[test]
fn a_missing_key_is_named() {
    let look = Few::default().secret("ns/s", json!({ "data": {} }));
    let container = json!({ "name": "c", "env": [
        { "name": "PW", "valueFrom": { "secretKeyRef": { "name": "s", "key": "password" } } },
    ]});
    let error = run(&container, &image(), &look).unwrap_err();
    assert_eq!(
        error.to_string(),
        "couldn't find key password in Secret ns/s"
    );
}

#[test]
fn services_of_the_namespace_and_the_api_server_have_variables() {
    let service = |namespace, name, ip| {
        json!({
            "metadata": { "namespace": namespace, "name": name },
            "spec": { "clusterIP": ip, "ports": [{ "name": "tcp-x", "port": 443 }] },
        })
    };
    let look = Few::default()
        .service(service("default", "kubernetes", "10.96.1.1"))
        .service(service("default", "other", "10.96.1.2"))
        .service(service("ns", "argocd-redis", "10.96.1.3"))
        .service(service("ns", "six", "fd00::a60:104"));
    let env = run(&json!({ "name": "c" }), &image(), &look).unwrap().env;
    let get = |name| env.get(name).map(String::as_str);
    assert_eq!(get("KUBERNETES_SERVICE_HOST"), Some("10.96.1.1"));
    assert_eq!(get("KUBERNETES_SERVICE_PORT"), Some("443"));
    assert_eq!(get("ARGOCD_REDIS_PORT"), Some("tcp://10.96.1.3:443"));
    assert_eq!(get("ARGOCD_REDIS_SERVICE_PORT_TCP_X"), Some("443"));
    assert_eq!(get("SIX_SERVICE_HOST"), Some("fd00::a60:104"));
    assert_eq!(get("SIX_PORT"), Some("tcp://[fd00::a60:104]:443"));
    assert_eq!(get("OTHER_SERVICE_HOST"), None);
}

#[test]
fn the_user_is_the_containers_then_the_pods_then_the_images() {
    let user = |container: Value, security: Value, image: Image| {
        let pod = pod(&container, &security);
        let container: Container = serde_json::from_value(container).unwrap();
        process(
            &pod,
            &container,
            &image,
            &Few::default(),
            &Addresses::default(),
        )
        .map(|process| (process.user, process.group, process.groups))
    };
    let named = json!({ "name": "c" });
    assert_eq!(user(named.clone(), json!({}), image()), Ok((0, 0, vec![])));
    assert_eq!(
        user(named.clone(), json!({}), image().user(999)),
        Ok((999, 999, vec![]))
    );
    assert_eq!(
        user(
            named.clone(),
            json!({ "runAsUser": 7, "fsGroup": 8 }),
            image().user(999)
        ),
        Ok((7, 0, vec![8]))
    );
    let own = json!({ "name": "c", "securityContext": { "runAsUser": 5, "runAsGroup": 6 } });
    assert_eq!(
        user(own, json!({ "runAsUser": 7 }), image()),
        Ok((5, 6, vec![]))
    );
    assert_eq!(
        user(named, json!({ "runAsNonRoot": true }), image()),
        Err(Refused::Root)
    );
}

#[test]
fn limits_can_be_asked_for_in_units() {
    let container = json!({
        "name": "c",
        "resources": { "limits": { "memory": "1536Mi", "cpu": "1500m" } },
        "env": [
            { "name": "MEM", "valueFrom": { "resourceFieldRef": { "resource": "limits.memory", "divisor": "1Mi" } } },
            { "name": "CPU", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu" } } },
        ],
    });
    let env = run(&container, &image(), &Few::default()).unwrap().env;
    assert_eq!(env.get("MEM").map(String::as_str), Some("1536"));
    assert_eq!(env.get("CPU").map(String::as_str), Some("2"));
}
