//! The part of a certificate request that the cache keeps. A cluster may create any number of requests of up to 1.5 MB, so
//! the rest is read again when a request is judged.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::api::DynamicObject;

use super::{Progress, claimed_cluster, progress, sender};
use crate::name::ClusterName;

/// The size of a request, in bytes of JSON, above which it is ignored. A good one has about 2 KiB.
pub(crate) const SIZE_LIMIT: usize = 64 * 1024;
/// The number of open requests of a cluster that are judged, the oldest first. OCM's registration agent stops at as many.
pub(crate) const OPEN_LIMIT: usize = 10;

/// The part of a request that the cache keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    /// The cluster whose registration agent sent it, by the API server's word; `None` for other requesters.
    pub(crate) sender: Option<ClusterName>,
    /// The cluster of its label, which decides nothing.
    pub(crate) claimed: Option<ClusterName>,
    /// Whether it has neither a certificate nor a denial.
    open: bool,
    /// Its size as JSON.
    size: usize,
    created: Option<Timestamp>,
    /// Its resourceVersion, so that every change of it wakes it.
    version: String,
}

impl Summary {
    /// Reads a request; `None` if it is unreadable.
    pub(crate) fn read(object: &DynamicObject, accepts_awsirsa: bool) -> Option<Self> {
        let text = serde_json::to_vec(object).ok()?;
        let request: CertificateSigningRequest = serde_json::from_slice(&text).ok()?;
        Some(Self {
            sender: sender(&request, accepts_awsirsa),
            claimed: claimed_cluster(&request),
            open: matches!(progress(&request), Progress::Pending | Progress::Approved),
            size: text.len(),
            created: request.metadata.creation_timestamp.map(|time| time.0),
            version: request.metadata.resource_version.unwrap_or_default(),
        })
    }

    /// Whether the SDK may have to approve or sign it.
    pub(crate) const fn is_open(&self) -> bool {
        self.open
    }
}

/// The names of the open requests of one sender that are small enough, the oldest first: [`OPEN_LIMIT`] of them are judged.
pub(crate) fn queue<'a, S: AsRef<Summary> + 'a>(
    requests: impl Iterator<Item = (&'a String, &'a S)>,
    sender: Option<&ClusterName>,
) -> Vec<&'a str> {
    let requests = requests.map(|(name, summary)| (name.as_str(), summary.as_ref()));
    let queued =
        requests.filter(|(_, it)| it.open && it.size <= SIZE_LIMIT && it.sender.as_ref() == sender);
    let queued: BTreeMap<_, _> = queued
        .map(|(name, it)| ((it.created, name), name))
        .collect();
    queued.into_values().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sdk::csr::samples::Sample;

    /// The heap and stack bytes of a summary.
    fn bytes(summary: &Summary) -> usize {
        let names = [&summary.sender, &summary.claimed].into_iter().flatten();
        let names: usize = names.map(|name| name.as_str().len()).sum();
        size_of::<Summary>() + names + summary.version.capacity()
    }

    fn read(request: &CertificateSigningRequest) -> Summary {
        let object = serde_json::from_value(json!(request)).unwrap();
        Summary::read(&object, false).unwrap()
    }

    fn named(name: &str, second: i64, version: &str) -> (String, Box<Summary>) {
        let mut summary = read(&Sample::good().request());
        summary.created = Timestamp::from_second(second).ok();
        summary.version = version.to_owned();
        (name.to_owned(), Box::new(summary))
    }

    #[test]
    fn cached_request_has_a_bounded_size() {
        let mut request = Sample::good().request();
        request.metadata.resource_version = Some("123456789".to_owned());
        let good = read(&request);
        assert!(good.is_open() && good.size < SIZE_LIMIT);
        assert_eq!(good.sender, good.claimed);
        request.spec.request.0 = vec![b'x'; 700_000];
        request.spec.username = Some(format!(
            "system:open-cluster-management:{}",
            "u".repeat(100_000)
        ));
        let labels = request.metadata.labels.get_or_insert_default();
        labels.extend((0..1000).map(|number| (format!("label-{number}"), "x".repeat(63))));
        request.metadata.annotations = Some([("a".to_owned(), "x".repeat(200_000))].into());
        let large = read(&request);
        assert!(large.size > 1_000_000);
        assert!(
            bytes(&large) <= bytes(&good) && bytes(&good) < 256,
            "{}",
            bytes(&good)
        );
    }

    #[test]
    fn oldest_open_requests_of_a_sender_are_judged_first() {
        let mut requests = vec![
            named("c", 2, "1"),
            named("b", 2, "1"),
            named("a", 9, "1"),
            named("z", 1, "1"),
        ];
        let mut large = named("large", 0, "1");
        large.1.size = SIZE_LIMIT + 1;
        let mut issued = named("issued", 0, "1");
        issued.1.open = false;
        let mut foreign = named("foreign", 0, "1");
        foreign.1.sender = None;
        requests.extend([large, issued, foreign]);
        let sender = ClusterName::new("ab").unwrap();
        let all = || requests.iter().map(|(name, summary)| (name, summary));
        assert_eq!(queue(all(), Some(&sender)), ["z", "b", "c", "a"]);
        assert_eq!(queue(all(), None), ["foreign"]);
    }
}
