//! Redis in what is rendered.

use super::*;
use crate::addon::settings::RedisTls;

#[test]
fn settings_of_redis_reach_the_agent_and_its_role() {
    let rendered = |mode: Mode, redis: RedisOptions| {
        let objects = render(&Spoke {
            mode,
            redis,
            ..spoke()
        });
        let pod = &of_kind(&objects, "Deployment")[0]["spec"]["template"]["spec"];
        let env = pod["containers"][0]["env"].clone();
        let rules = of_the_agent(&objects, "Role")[0]["rules"].clone();
        (env.to_string(), rules)
    };
    let configured = RedisOptions {
        address: Some("redis:7000".to_owned()),
        secret: Some("of-redis".to_owned()),
        tls: RedisTls::ConfigMap("ca-of-redis".to_owned()),
        ..RedisOptions::default()
    };
    let rule = |rules: &Value, resource: &str, verb: &str| {
        let mut rules = rules.as_array().unwrap().iter();
        let is_it = |it: &&Value| it["resources"] == json!([resource]) && it["verbs"][0] == verb;
        rules.rfind(is_it).map(|it| it["resourceNames"].clone())
    };
    let found: Vec<_> = live::redis_service::secrets().collect();
    for mode in [Mode::Managed, Mode::Autonomous] {
        for (redis, secrets) in [
            (RedisOptions::default(), found.clone()),
            (configured.clone(), vec!["of-redis"]),
        ] {
            let (_, rules) = rendered(mode, redis);
            assert_eq!(rule(&rules, "secrets", "get"), Some(json!(secrets)));
            assert_eq!(rule(&rules, "services", "list"), Some(Value::Null));
            // The repositories of mode managed.
            let is_listed = rule(&rules, "secrets", "list").is_some();
            assert_eq!(is_listed, mode == Mode::Managed);
        }
    }
    for mode in [Mode::Managed, Mode::Autonomous] {
        let (env, _) = rendered(mode, RedisOptions::default());
        assert!(!env.contains("REDIS"), "{env}");
        let (env, rules) = rendered(mode, configured.clone());
        for value in [
            r#""name":"REDIS_ADDR","value":"redis:7000""#,
            r#""name":"ARGOCD_AGENT_REDIS_SECRET_NAME","value":"of-redis""#,
            r#""name":"ARGOCD_AGENT_REDIS_TLS_CA_CONFIGMAP_NAME","value":"ca-of-redis""#,
        ] {
            assert!(env.contains(value), "{env}");
        }
        let maps = rule(&rules, "configmaps", "list");
        assert_eq!(maps, Some(json!(["ca-of-redis"])), "{mode}");
    }
    // The manifest shows a reader the same names.
    for file in [MANAGED_ROLE, AUTONOMOUS_ROLE] {
        let mut files = FILES.iter();
        let (_, text) = files.find(|(name, _)| *name == file).unwrap();
        for name in &found {
            assert!(text.contains(&format!("- {name}\n")), "{name}");
        }
    }
}
