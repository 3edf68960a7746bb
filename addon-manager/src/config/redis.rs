//! Checked settings of the redis proxy.

use std::net::{IpAddr, SocketAddr};

use principal::RedisProxy;

use super::{Error, checked_address};
use crate::args::RedisArgs;

/// The redis proxy on this address, if it is wanted, before the redis of the Argo CD in this namespace.
pub(super) fn checked(
    args: RedisArgs,
    host: IpAddr,
    argocd_namespace: &str,
) -> Result<Option<RedisProxy>, Error> {
    let RedisArgs {
        redis_proxy_port,
        redis_proxy_tls,
        redis_proxy_max_value,
        redis_proxy_remember,
        redis_address,
    } = args;
    let server = match redis_address.filter(|text| !text.is_empty()) {
        Some(given) => checked_address("--redis-address", &given)?.to_string(),
        None => format!("argocd-redis.{argocd_namespace}.svc:6379"),
    };
    Ok((redis_proxy_port != 0).then(|| RedisProxy {
        listen: SocketAddr::new(host, redis_proxy_port),
        tls: redis_proxy_tls,
        server,
        largest_value: redis_proxy_max_value,
        remembered: redis_proxy_remember,
    }))
}
