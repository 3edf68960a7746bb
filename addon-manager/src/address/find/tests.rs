use proptest::prelude::*;
use serde_json::json;

use super::*;

fn service(spec: &Value, ingress: &Value) -> Service {
    serde_json::from_value(json!({
        "metadata": { "name": "argocd-agent-principal" },
        "spec": spec, "status": { "loadBalancer": { "ingress": ingress } },
    }))
    .unwrap()
}

fn cluster_ip() -> Service {
    service(&json!({ "ports": [{ "port": 443 }] }), &json!([]))
}

fn node(name: &str, ready: &str, addresses: &Value) -> Node {
    serde_json::from_value(json!({
        "metadata": { "name": name },
        "status": { "addresses": addresses, "conditions": [{ "type": "Ready", "status": ready }] },
    }))
    .unwrap()
}

fn found(seen: &Seen) -> Option<(String, Source)> {
    find(seen, None).map(|(address, source)| (address.to_string(), source))
}

fn at(text: &str, source: Source) -> (String, Source) {
    (text.to_owned(), source)
}

#[test]
fn a_load_balancers_name_or_address_will_do_and_nothing_else() {
    let spec = json!({ "type": "LoadBalancer", "ports": [{ "port": 443 }] });
    for (ingress, expected) in [
        (json!([{ "ip": "10.240.0.1" }]), Some("10.240.0.1:443")),
        (
            json!([{ "ip": "10.240.0.1", "hostname": "lb.example.org" }]),
            Some("lb.example.org:443"),
        ),
        (json!([{ "ip": "2001:db8::1" }]), Some("[2001:db8::1]:443")),
        // Of a Service with two families; the first is that of the Service's first address.
        (
            json!([{ "ip": "2001:db8::1" }, { "ip": "10.240.0.1" }]),
            Some("[2001:db8::1]:443"),
        ),
        (
            json!([{ "ip": "10.240.0.1" }, { "ip": "2001:db8::1" }]),
            Some("10.240.0.1:443"),
        ),
        (json!([]), None),
        (json!([{ "ip": "" }]), None),
    ] {
        let seen = Seen {
            service: Some(service(&spec, &ingress)),
            ..Seen::default()
        };
        let expected = expected.map(|text| at(text, Source::LoadBalancer));
        assert_eq!(found(&seen), expected);
    }
}

#[test]
fn a_route_counts_if_it_passes_tls_through_to_the_service() {
    let route = |to: &str, termination: &str| json!({ "spec": { "host": "a.example.org", "to": { "name": to }, "tls": { "termination": termination } } });
    let seen = |routes| Seen {
        service: Some(cluster_ip()),
        routes,
        ..Seen::default()
    };
    let good = route("argocd-agent-principal", "passthrough");
    assert_eq!(
        found(&seen(vec![route("x", "passthrough"), good])),
        Some(at("a.example.org:443", Source::Route))
    );
    assert_eq!(
        found(&seen(vec![route("argocd-agent-principal", "edge")])),
        None
    );
    let reported = json!({
        "spec": { "to": { "name": "argocd-agent-principal" }, "tls": { "termination": "passthrough" } },
        "status": { "ingress": [{ "host": "reported.example.org" }] },
    });
    assert_eq!(
        found(&seen(vec![reported])),
        Some(at("reported.example.org:443", Source::Route))
    );
}

#[test]
fn a_tls_route_counts_with_the_port_that_its_parent_names() {
    let route = |name: &str, parent: Value| {
        json!({ "spec": {
            "parentRefs": [parent], "hostnames": ["gw.example.org"],
            "rules": [{ "backendRefs": [{ "name": name, "port": 443 }] }],
        } })
    };
    let seen = |route| Seen {
        service: Some(cluster_ip()),
        tls_routes: vec![route],
        ..Seen::default()
    };
    let ours = "argocd-agent-principal";
    let plain = seen(route(ours, json!({ "name": "gateway" })));
    assert_eq!(
        found(&plain),
        Some(at("gw.example.org:443", Source::TlsRoute))
    );
    let ported = seen(route(ours, json!({ "name": "gateway", "port": 8443 })));
    assert_eq!(
        found(&ported),
        Some(at("gw.example.org:8443", Source::TlsRoute))
    );
    assert_eq!(found(&seen(route("other", json!({})))), None);
}

#[test]
fn an_ingress_counts_if_its_controller_passes_tls_through() {
    let ingress = |value: &str| {
        json!({
            "metadata": { "annotations": { "nginx.ingress.kubernetes.io/ssl-passthrough": value } },
            "spec": { "rules": [
                { "host": "web.example.org", "http": { "paths": [{ "backend": { "service": { "name": "web" } } }] } },
                { "host": "in.example.org",
                  "http": { "paths": [{ "backend": { "service": { "name": "argocd-agent-principal" } } }] } },
            ] },
        })
    };
    let seen = |value| Seen {
        service: Some(cluster_ip()),
        ingresses: vec![ingress(value)],
        ..Seen::default()
    };
    assert_eq!(
        found(&seen("true")),
        Some(at("in.example.org:443", Source::Ingress))
    );
    assert_eq!(found(&seen("false")), None);
}

#[test]
fn a_ready_node_will_do_for_a_node_port_and_the_one_in_use_stays() {
    let spec = json!({ "type": "NodePort", "ports": [{ "port": 443, "nodePort": 30443 }] });
    let inside = |ip: &str| json!([{ "type": "InternalIP", "address": ip }]);
    let seen = |nodes| Seen {
        service: Some(service(&spec, &json!([]))),
        nodes,
        ..Seen::default()
    };
    let both = seen(vec![
        node("b", "True", &inside("10.0.0.2")),
        node("a", "True", &inside("10.0.0.1")),
        node("c", "False", &inside("10.0.0.0")),
    ]);
    assert_eq!(found(&both), Some(at("10.0.0.1:30443", Source::NodePort)));
    let in_use: Address = "10.0.0.2:30443".parse().unwrap();
    assert_eq!(find(&both, Some(&in_use)).unwrap().0, in_use);
    let gone: Address = "10.0.0.9:30443".parse().unwrap();
    assert_eq!(
        find(&both, Some(&gone)).unwrap().0.to_string(),
        "10.0.0.1:30443"
    );
    let outside = json!([
        { "type": "InternalIP", "address": "10.0.0.3" },
        { "type": "ExternalIP", "address": "192.0.2.3" },
    ]);
    let mixed = seen(vec![
        node("a", "True", &inside("10.0.0.1")),
        node("b", "True", &outside),
    ]);
    assert_eq!(found(&mixed), Some(at("192.0.2.3:30443", Source::NodePort)));
    let dual_stack = json!([
        { "type": "InternalIP", "address": "2001:db8::3" },
        { "type": "InternalIP", "address": "10.0.0.3" },
    ]);
    let six = seen(vec![node("a", "True", &dual_stack)]);
    let first = at("[2001:db8::3]:30443", Source::NodePort);
    assert_eq!(found(&six), Some(first));
    assert_eq!(found(&seen(Vec::new())), None);
}

#[test]
fn external_name_service_yields_an_address() {
    let spec = json!({ "type": "ExternalName", "externalName": "hub.example.org", "ports": [{ "port": 8443 }] });
    let seen = |service| Seen {
        service: Some(service),
        ..Seen::default()
    };
    let named = seen(service(&spec, &json!([])));
    assert_eq!(
        found(&named),
        Some(at("hub.example.org:8443", Source::ExternalName))
    );
    assert_eq!(found(&seen(cluster_ip())), None);
    assert_eq!(found(&Seen::default()), None);
}

#[test]
fn a_load_balancer_comes_before_anything_else() {
    let spec = json!({ "type": "LoadBalancer", "ports": [{ "port": 443 }] });
    let route = json!({ "spec": {
        "host": "a.example.org", "to": { "name": "argocd-agent-principal" }, "tls": { "termination": "passthrough" },
    } });
    let seen = |ingress| Seen {
        service: Some(service(&spec, &ingress)),
        routes: vec![route.clone()],
        ..Seen::default()
    };
    let given = seen(json!([{ "ip": "10.240.0.1" }]));
    assert_eq!(
        found(&given),
        Some(at("10.240.0.1:443", Source::LoadBalancer))
    );
    assert_eq!(
        found(&seen(json!([]))),
        Some(at("a.example.org:443", Source::Route))
    );
}

proptest! {
    #[test]
    fn odd_objects_are_no_address_and_no_panic(text in "\\PC{0,12}", number in any::<i64>()) {
        let odd = json!({
            "metadata": { "annotations": text }, "spec": { "rules": text, "hostnames": [number], "to": number,
            "parentRefs": [{ "port": number }] }, "status": text,
        });
        let seen = Seen {
            service: Some(cluster_ip()),
            routes: vec![odd.clone()],
            tls_routes: vec![odd.clone()],
            ingresses: vec![odd],
            nodes: Vec::new(),
        };
        prop_assert_eq!(found(&seen), None);
    }
}
