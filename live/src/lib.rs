//! Live requests of the hub's Argo CD to a cluster, as pure rules over plain data.
//!
//! Both ends use this crate. The hub parses requests of Argo CD (Kubernetes API, redis) and serializes them again for the
//! agent; the agent parses them again, checks them against `UI_ACCESS` and answers. Nothing in this crate knows the
//! wire, a client, a socket or a clock.
//!
//! | module | content |
//! |---|---|
//! | [`request`] | a request for the API of a cluster: parsed, checked and serialized again |
//! | [`ui_access`] | the access levels of `UI_ACCESS`: which requests each level allows |
//! | [`belonging`] | whether an object belongs to an Application |
//! | [`change`] | bodies of changes, bound to the object that was authorized |
//! | [`upgrade`] | HTTP upgrade requests, which terminals need |
//! | [`channels`] | the channel protocol of a terminal |
//! | [`cache_key`] | keys of Argo CD's redis cache that concern an Application |
//! | [`cluster_info`] | the values that Argo CD's cluster page reads in redis |
//! | [`events`] | Events of a cluster about an Application, as Events of the hub |
//! | [`redis_service`] | the Service and the Secret of Argo CD's redis on a cluster |
//! | [`resp`] | the redis protocol (RESP2 and RESP3), parsed as a stream within limits |

pub mod belonging;
pub mod cache_key;
pub mod change;
pub mod channels;
pub mod cluster_info;
pub mod events;
pub mod redis_service;
pub mod request;
pub mod resp;
pub mod ui_access;
pub mod upgrade;
