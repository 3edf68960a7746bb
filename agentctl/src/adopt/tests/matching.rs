//! Which cluster a Secret is.

use super::*;

#[test]
fn an_address_is_the_same_however_it_is_written_and_no_other() {
    let same = [
        "https://Paris.example.com",
        "https://paris.example.com:443/",
        " https://paris.example.com/ ",
    ];
    let address = Address::parse(same[0]);
    assert!(address.is_some());
    for url in same {
        assert_eq!(Address::parse(url), address, "{url}");
    }
    for other in [
        "https://paris.example.com:6443",
        "https://paris.example.com/k8s",
        "https://paris.example.com?agentName=paris",
        "http://paris.example.com",
        "https://xparis.example.com",
    ] {
        let parsed = Address::parse(other);
        assert!(parsed.is_some() && parsed != address, "{other}");
    }
    for none in [
        "",
        "paris.example.com",
        "ftp://paris.example.com",
        "https://",
        "%",
    ] {
        assert_eq!(Address::parse(none), None, "{none}");
    }
    assert_ne!(
        Address::parse("https://[fd00::1]:6443"),
        Address::parse("https://[fd00::2]:6443")
    );
}

#[test]
fn a_secret_is_a_cluster_by_exact_name_or_exact_server() {
    let other = "https://other.example.com:6443";
    for (shown, server, urls, expected) in [
        ("paris", "https://10.0.0.1", &[] as &[&str], Some(By::Name)),
        ("paris", PARIS, &[PARIS], Some(By::Name)),
        ("prod-paris", PARIS, &[PARIS], Some(By::Server)),
        (
            "prod-paris",
            PARIS,
            &[other, "https://PARIS.example.com:6443/"],
            Some(By::Server),
        ),
        ("Paris", other, &[PARIS], None),
        ("par", other, &[PARIS], None),
        ("prod-paris", "https://paris.example.com", &[PARIS], None),
        ("prod-paris", "nonsense", &["nonsense"], None),
    ] {
        let secrets = vec![secret("s", shown, server)];
        let facts = facts(secrets, vec![cluster("paris", urls)]);
        let row = only(&facts);
        assert_eq!(row.by, expected, "{shown} {server}");
        let found = expected.map(|_| "paris".to_owned());
        assert_eq!((row.kind, row.cluster), (Kind::Push, found));
        if expected.is_none() {
            assert_eq!(row.state, State::Blocked);
            assert!(row.in_the_way[0].contains("clusteradm join"));
        }
    }
}

/// It may be known to the hub under another address, and it may be another cluster.
#[test]
fn conflicting_server_requires_explicit_adoption() {
    let other = "https://other.example.com:6443";
    for (server, declared) in [
        (other, PARIS),
        ("https://paris.example.com", PARIS),
        ("nonsense", PARIS),
        (other, "nonsense"),
    ] {
        let known = vec![cluster("paris", &[declared])];
        let mut facts = facts(vec![secret("s", "paris", server)], known);
        let row = only(&facts);
        assert_eq!((row.cluster, row.state), (None, State::Blocked));
        for words in [server, declared, "--same-cluster paris"] {
            assert!(row.in_the_way[0].contains(words), "{:?}", row.in_the_way);
        }
        assert!(plan(&facts).ready().is_empty() && plan(&facts).is_blocked());
        facts.same = vec!["lyon".to_owned()];
        assert_eq!(only(&facts).state, State::Blocked, "of another");
        facts.same.push("paris".to_owned());
        let row = only(&facts);
        assert_eq!((row.by, row.state), (Some(By::Name), State::Ready));
    }
    // What has the server of another one is no matter of a word.
    let apart = vec![cluster("paris", &[PARIS]), cluster("lyon", &[other])];
    let mut facts = facts(vec![secret("s", "paris", other)], apart);
    facts.same = vec!["paris".to_owned()];
    assert_eq!(only(&facts).state, State::Blocked);
}

/// What Applications mean by its name today is the Secret in doubt.
#[test]
fn doubtful_secret_of_same_name_blocks_adoption_by_server() {
    let secrets = vec![
        secret("by-server", "prod-paris", PARIS),
        secret("by-name", "paris", "https://other.example.com"),
    ];
    let mut facts = facts(secrets, vec![cluster("paris", &[PARIS])]);
    let found = plan(&facts);
    let states: Vec<_> = found.clusters.iter().map(|row| row.state).collect();
    assert_eq!(states, [State::Blocked; 2]);
    assert!(found.ready().is_empty());
    let why = &found.clusters[1].in_the_way[0];
    assert!(why.contains("the Secret by-name"), "{why}");
    facts.same = vec!["paris".to_owned()];
    assert_eq!(plan(&facts).ready().len(), 1);
}

#[test]
fn ambiguous_secret_matches_no_cluster_and_is_reported() {
    let two = vec![cluster("paris", &[PARIS]), cluster("lyon", &[PARIS])];
    let row = only(&facts(vec![secret("s", "x", PARIS)], two.clone()));
    assert!(row.in_the_way[0].contains("several"), "{row:#?}");
    assert!(row.in_the_way[0].contains("paris, lyon"), "{row:#?}");
    assert_eq!((row.cluster, row.state), (None, State::Blocked));
    // A name that is one of them decides.
    let row = only(&facts(vec![secret("s", "lyon", PARIS)], two));
    assert_eq!(row.cluster.as_deref(), Some("lyon"));
    // The name of one and the server of another is neither.
    let apart = vec![cluster("paris", &[]), cluster("lyon", &[PARIS])];
    let row = only(&facts(vec![secret("s", "paris", PARIS)], apart));
    assert_eq!(row.cluster, None);
    assert!(row.in_the_way[0].contains("correct its name or its server"));
}

#[test]
fn a_secret_of_an_agent_is_the_cluster_of_the_agents_name() {
    let proxy = "https://proxy:9090?agentName=paris";
    let known = || vec![cluster("paris", &[PARIS])];
    for one in [
        of_agent("cluster-paris", "paris", proxy),
        secret("agent-paris", "anything", proxy),
    ] {
        let row = only(&facts(vec![one], known()));
        assert_eq!((row.kind, row.by), (Kind::Agent, Some(By::Name)));
        assert_eq!(
            (row.cluster.as_deref(), row.state),
            (Some("paris"), State::Ready)
        );
    }
    let unknown = of_agent("cluster-rome", "rome", "https://proxy:9090?agentName=rome");
    let row = only(&facts(vec![unknown], known()));
    assert!(row.in_the_way[0].contains("no ManagedCluster rome"));
    let apart = of_agent("cluster-rome", "rome", proxy);
    let row = only(&facts(vec![apart], known()));
    assert_eq!((row.kind, row.cluster), (Kind::Agent, None));
    let hub = secret("hub", "in-cluster", "https://kubernetes.default.svc");
    let row = only(&facts(vec![hub], known()));
    assert_eq!((row.kind, row.state), (Kind::Hub, State::Stays));
}
