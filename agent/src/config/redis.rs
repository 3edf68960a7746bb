//! How the agent reaches Argo CD's redis.

use redis_discovery::{Ca, LoginSource, Settings};
use runtime::credentials::login::Login;
use runtime::net::host_and_port;
use rustls_pki_types::ServerName;

use super::error::Error;
use crate::args::RedisArgs;

/// Checks the flags.
pub(super) fn settings(args: &RedisArgs) -> Result<Settings, Error> {
    let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let address = some(&args.redis_addr);
    if let Some(wrong) = address.as_ref().filter(|address| !is_address(address)) {
        return Err(Error::Redis(wrong.clone()));
    }
    Ok(Settings {
        address,
        user: some(&args.redis_username),
        login: login_source(args),
        tls: args.redis_tls_enabled.then(|| ca(args)),
    })
}

/// As in Go, a folder goes before a password. Both go before a Secret.
fn login_source(args: &RedisArgs) -> LoginSource {
    if let Some(folder) = &args.redis_creds_dir_path {
        return LoginSource::Folder(folder.clone());
    }
    if let Some(login) = args.redis_password.clone().and_then(Login::of) {
        return LoginSource::Given(login);
    }
    match args.redis_secret_name.as_str() {
        "" if args.redis_addr.is_empty() => LoginSource::ArgoCd,
        "" => LoginSource::of_manifests(),
        name => LoginSource::Secret {
            name: name.to_owned(),
            key: args.redis_secret_key.clone(),
        },
    }
}

fn ca(args: &RedisArgs) -> Ca {
    if let Some(path) = &args.redis_tls_ca_path {
        return Ca::File(path.clone());
    }
    match args.redis_tls_ca_configmap_name.as_str() {
        "" => Ca::Secret(args.redis_tls_ca_secret_name.clone()),
        name => Ca::ConfigMap(name.to_owned()),
    }
}

/// host:port; an IPv6 address has brackets.
fn is_address(text: &str) -> bool {
    host_and_port(text, None).is_some_and(|(host, _)| ServerName::try_from(host).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::tests::parsed;

    fn of(args: &[&str]) -> Result<Settings, Error> {
        settings(&parsed(args).redis)
    }

    #[test]
    fn everything_about_redis_is_found_by_default() {
        let redis = of(&[]).unwrap();
        let default = Settings {
            address: None,
            user: None,
            login: LoginSource::ArgoCd,
            tls: None,
        };
        assert_eq!(redis, default);
        assert_eq!(of(&["--redis-addr=", "--redis-password="]), Ok(default));
    }

    #[test]
    fn addresses_of_redis_have_a_port() {
        for good in [
            "argocd-redis:6379",
            "redis.cd.svc.cluster.local:7000",
            "10.0.0.1:6379",
            "[2001:db8::1]:6379",
            "with_underscore:1",
        ] {
            let redis = of(&["--redis-addr", good]).unwrap();
            assert_eq!(redis.address.as_deref(), Some(good));
            let login = LoginSource::Secret {
                name: "argocd-redis".to_owned(),
                key: "auth".to_owned(),
            };
            assert_eq!(redis.login, login);
        }
        for bad in [
            "redis",
            "redis:",
            "redis:0",
            "redis:65536",
            ":6379",
            "redis://redis:6379",
            "2001:db8::1:6379",
            "[10.0.0.1]:6379",
            "10.0.0.300:6379",
            "a b:6379",
            "redis\n:6379",
        ] {
            assert_eq!(
                of(&["--redis-addr", bad]),
                Err(Error::Redis(bad.to_owned()))
            );
        }
    }

    #[test]
    fn password_sources_have_an_order() {
        let login = |args: &[&str]| of(args).unwrap().login;
        let (given, secret) = ("--redis-password=x", "--redis-secret-name=s");
        let folder = LoginSource::Folder("d".into());
        assert_eq!(login(&["--redis-creds-dir-path=d", given, secret]), folder);
        let LoginSource::Given(known) = login(&[given, secret]) else {
            panic!("the password was given");
        };
        assert_eq!(known.password, "x");
        let shown = format!("{:?}", of(&["--redis-password=hunter2"]).unwrap());
        assert!(!shown.contains("hunter2"), "{shown}");
        let of_secret = |key: &str| LoginSource::Secret {
            name: "s".to_owned(),
            key: key.to_owned(),
        };
        assert_eq!(login(&[secret]), of_secret("auth"));
        assert_eq!(
            login(&[secret, "--redis-secret-key=admin.password"]),
            of_secret("admin.password")
        );
        let user = of(&["--redis-username=argo"]).unwrap().user;
        assert_eq!(user.as_deref(), Some("argo"));
    }

    #[test]
    fn tls_is_used_when_enabled_and_its_ca_has_one_source() {
        let tls = |args: &[&str]| of(args).unwrap().tls;
        let (path, map) = (
            "--redis-tls-ca-path=f",
            "--redis-tls-ca-configmap-name=openshift-service-ca.crt",
        );
        let on = "--redis-tls-enabled";
        assert_eq!(tls(&[path, map]), None);
        assert_eq!(tls(&[on, path, map]), Some(Ca::File("f".into())));
        let of_map = Ca::ConfigMap("openshift-service-ca.crt".to_owned());
        assert_eq!(tls(&[on, map]), Some(of_map));
        let usual = Ca::Secret("argocd-redis-tls".to_owned());
        assert_eq!(tls(&[on]), Some(usual));
    }
}
