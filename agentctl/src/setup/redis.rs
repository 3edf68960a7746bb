//! Whether the hub program can forward to the redis that argocd-server uses now. Pure.

use argocd::keys::addon::MANAGER;
use diagnosis::object::{container, option, words};
use live::redis_service::{Doubt, ON_HUB};

use super::{
    Facts,
    holder::{Holder, Wanted},
    obstacles::{Found, upgrade},
};
use crate::{
    check::{
        failed, full_address,
        spoke::{REDIS, RedisClient, RedisPlace, RedisSettings, decide, redis_fence},
    },
    settings::{REDIS_ADDRESS, REDIS_PROXY_TLS, REDIS_SECRET, REDIS_SECRET_KEY, REDIS_TLS},
};

/// The flag of argocd-server for TLS to redis.
const TLS_FLAG: &str = "--redis-use-tls";

/// The redis to which the hub program forwards.
pub(super) fn place(facts: &Facts) -> RedisPlace {
    let setting = |flag| setting(facts, flag).map(str::to_owned);
    let settings = RedisSettings {
        address: setting(REDIS_ADDRESS),
        secret: setting(REDIS_SECRET),
        key: setting(REDIS_SECRET_KEY),
    };
    decide(settings, &facts.services)
}

/// A setting of the hub program.
fn setting<'a>(facts: &'a Facts, flag: &str) -> Option<&'a str> {
    let value = option(container(facts.manager.as_ref()?)?, (flag, ""));
    value.filter(|it| !it.is_empty())
}

/// All that is in the way.
pub(super) fn obstacles(facts: &Facts, holder: Holder<'_>, wanted: &Wanted) -> Vec<Found> {
    let place = place(facts);
    let mut all: Vec<_> = fence(facts, &place).into_iter().collect();
    let disagreement = tls(facts);
    if wanted.is_led {
        all.extend(other_redis(facts, &place, &holder.redis(facts)));
        all.extend(password(facts, &place));
        all.extend(
            disagreement
                .is_none()
                .then(|| tls_to_redis(facts))
                .flatten(),
        );
    }
    all.extend(disagreement);
    all
}

/// Policies that would keep the hub program from Argo CD's redis.
fn fence(facts: &Facts, place: &RedisPlace) -> Option<Found> {
    let argocd = &facts.argocd_namespace;
    let client = RedisClient {
        namespace: &facts.own_namespace,
        name: MANAGER,
        argocd,
        redis: &place.pods,
    };
    let (names, is_admitted) = redis_fence(&facts.fences, client)?;
    if is_admitted {
        return None;
    }
    let cause = format!("{names} in namespace {argocd} keeps the hub program from Argo CD's redis");
    let next = upgrade(facts, "redisProxy.networkPolicy=always");
    Some(("network", failed(cause, format!("admit it: {next}"))))
}

fn has_tls_flag(facts: &Facts) -> bool {
    let server = container(&facts.server);
    server.is_some_and(|it| words(it).any(|word| word.starts_with(TLS_FLAG)))
}

/// Whether argocd-server and the redis proxy agree on TLS.
fn tls(facts: &Facts) -> Option<Found> {
    let has_tls = setting(facts, REDIS_PROXY_TLS) == Some("true");
    let (cause, next) = match (has_tls, has_tls_flag(facts)) {
        (true, false) => (
            format!("the redis proxy uses TLS, and argocd-server has no flag {TLS_FLAG}"),
            format!(
                "add {TLS_FLAG} and --redis-ca-certificate to argocd-server as docs/live.md describes, or turn TLS off: \
                {}",
                upgrade(facts, "redisProxy.tls=false")
            ),
        ),
        (false, true) => (
            format!("argocd-server has the flag {TLS_FLAG}, and the redis proxy does not use TLS"),
            format!("turn it on: {}", upgrade(facts, "redisProxy.tls=true")),
        ),
        (true, true) | (false, false) => return None,
    };
    Some(("redis", failed(cause, next)))
}

/// Whether the hub program uses TLS to Argo CD's redis as argocd-server does, which uses that redis now.
fn tls_to_redis(facts: &Facts) -> Option<Found> {
    let is_set = setting(facts, REDIS_TLS).is_some_and(|it| it != "none");
    if is_set || !has_tls_flag(facts) {
        return None;
    }
    let cause = format!(
        "argocd-server has the flag {TLS_FLAG}, and the hub program does not use TLS to Argo CD's redis"
    );
    let value = format!("{}=Secret/NAME", ON_HUB.tls);
    let next = upgrade(facts, &value);
    let next = format!("name the Secret or ConfigMap with the certificates to trust: {next}");
    Some(("redis", failed(cause, next)))
}

/// Whether the hub program forwards to the redis that argocd-server uses now.
fn other_redis(facts: &Facts, place: &RedisPlace, present: &str) -> Option<Found> {
    let argocd = &facts.argocd_namespace;
    let (address, target) = (full_address(present, argocd), place.target(argocd));
    if address == full_address(&target, argocd) {
        return None;
    }
    let cause =
        format!("argocd-server uses the redis {present}, and the hub program forwards to {target}");
    let value = format!("{}={address}", ON_HUB.address);
    Some(("redis", failed(cause, upgrade(facts, &value))))
}

fn password(facts: &Facts, place: &RedisPlace) -> Option<Found> {
    let argocd = &facts.argocd_namespace;
    let Some((secret, key)) = &place.password else {
        let doubt = place
            .doubt
            .as_ref()
            .filter(|it| matches!(it, Doubt::Password(_)));
        let cause = doubt.map_or_else(
            || format!("no password of {REDIS} is known"),
            |it| it.text(&ON_HUB),
        );
        let next = "set both values of the chart with helm upgrade, and run this again";
        return Some(("redis", failed(cause, next)));
    };
    if facts.has_password {
        return None;
    }
    let cause = format!(
        "the Secret {argocd}/{secret} does not exist, from which the hub program reads the password of redis"
    );
    let next = format!(
        "create it with the password of Argo CD's redis in the key {key}, or name another one with {} and {}",
        ON_HUB.secret, ON_HUB.key
    );
    Some(("redis", failed(cause, next)))
}
