pub(crate) mod samples;

use k8s_openapi::{
    ByteString,
    api::certificates::v1::{CertificateSigningRequestCondition, CertificateSigningRequestStatus},
    apimachinery::pkg::apis::meta::v1::Time,
};
use proptest::prelude::*;
use rcgen::{KeyPair, SanType};

use self::samples::*;
use super::*;

fn judge(request: &CertificateSigningRequest) -> Result<Granted, Refusal> {
    judge_on(request, Some(&managed_cluster()), Some(&cluster_addon()))
}

fn judge_on(
    request: &CertificateSigningRequest,
    managed_cluster: Option<&ManagedCluster>,
    cluster_addon: Option<&ManagedClusterAddOn>,
) -> Result<Granted, Refusal> {
    let (addon, cluster, wanted) = (addon_name(), cluster_name(), wanted());
    let situation = Situation {
        addon: &addon,
        cluster: &cluster,
        managed_cluster,
        cluster_addon,
        wanted: &wanted,
        accepts_awsirsa: false,
    };
    check(request, situation)
}

fn reason(request: &CertificateSigningRequest) -> &'static str {
    judge(request).map_or_else(|refusal| refusal.reason, |_granted| "granted")
}

#[test]
fn a_valid_request_is_granted_with_the_computed_subject() {
    let granted = judge(&Sample::good().request()).unwrap();
    assert!(granted.custom);
    assert_eq!(
        granted.subject,
        default_subject(&addon_name(), &cluster_name())
    );
}

#[test]
fn a_request_to_the_hubs_own_signer_is_approved_but_not_signed() {
    let mut request = Sample::good().request();
    request.spec.signer_name = keys::KUBE_SIGNER.to_owned();
    assert!(!judge(&request).unwrap().custom);
}

type Spoil = fn(&mut CertificateSigningRequest);

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn csr_metadata_must_match() {
    let cases: [(&str, Spoil); 23] = [
        ("granted", |_| {}),
        ("granted", |r| {
            r.spec.usages = Some(vec!["client auth".to_owned()]);
        }),
        ("WrongClusterLabel", |r| r.metadata.labels = None),
        ("WrongClusterLabel", |r| label(r, keys::CLUSTER_NAME, "a")),
        ("WrongClusterLabel", |r| {
            label(r, keys::CLUSTER_NAME, "ab:x");
        }),
        ("WrongAddonLabel", |r| label(r, keys::ADDON_NAME, "b")),
        ("WrongRequester", |r| r.spec.username = None),
        ("WrongRequester", |r| {
            user(r, "system:open-cluster-management:a:agent");
        }),
        ("WrongRequester", |r| {
            user(r, "system:open-cluster-management:abc:agent");
        }),
        ("WrongRequester", |r| {
            user(r, "system:open-cluster-management:ab");
        }),
        ("WrongRequester", |r| {
            user(r, "system:open-cluster-management:ab:");
        }),
        ("WrongRequester", |r| {
            user(r, "system:open-cluster-management:ab:x:y");
        }),
        ("WrongRequester", |r| user(r, "kubernetes-admin")),
        ("WrongRequester", |r| {
            r.spec.groups = Some(vec!["system:open-cluster-management:a".to_owned()]);
        }),
        ("WrongRequester", |r| r.spec.groups = None),
        ("WrongRequester", |r| {
            note(r, "someone", "system:open-cluster-management:ab:agent");
        }),
        ("WrongRequester", |r| {
            note(
                r,
                keys::GRPC_SERVER_USER,
                "system:open-cluster-management:a:agent",
            );
        }),
        ("granted", |r| {
            note(
                r,
                keys::GRPC_SERVER_USER,
                "system:open-cluster-management:ab:agent",
            );
        }),
        ("WrongSigner", |r| {
            r.spec.signer_name = "kubernetes.io/kubelet-serving".to_owned();
        }),
        ("WrongSigner", |r| r.spec.signer_name = format!("{SIGNER}x")),
        ("WrongUsages", |r| r.spec.usages = None),
        ("WrongUsages", |r| {
            r.spec
                .usages
                .as_mut()
                .unwrap()
                .push("server auth".to_owned());
        }),
        ("WrongUsages", |r| {
            r.spec.usages = Some(vec!["digital signature".to_owned()]);
        }),
    ];
    let good = Sample::good().request();
    for (index, (wanted, spoil)) in cases.into_iter().enumerate() {
        let mut request = good.clone();
        spoil(&mut request);
        assert_eq!(reason(&request), wanted, "case {index}");
    }
}

fn label(request: &mut CertificateSigningRequest, key: &str, value: &str) {
    request
        .metadata
        .labels
        .get_or_insert_default()
        .insert(key.to_owned(), value.to_owned());
}

fn user(request: &mut CertificateSigningRequest, user: &str) {
    request.spec.username = Some(user.to_owned());
}

fn note(request: &mut CertificateSigningRequest, username: &str, noted: &str) {
    user(request, username);
    request.spec.groups = Some(Vec::new());
    let annotations = request.metadata.annotations.get_or_insert_default();
    annotations.insert(keys::CSR_USER.to_owned(), noted.to_owned());
}

#[test]
fn csr_content_must_match() {
    type Spoil = fn(&mut Sample);
    let cases: [(&str, Spoil); 17] = [
        ("granted", |_| {}),
        ("granted", |s| s.groups.reverse()),
        ("granted", |s| s.names.clear()),
        ("WrongCommonName", |s| s.common_names[0].push('x')),
        ("WrongCommonName", |s| {
            s.common_names[0] = "system:admin".to_owned();
        }),
        ("Malformed", |s| s.common_names.push("second".to_owned())),
        ("Malformed", |s| s.common_names.clear()),
        ("Malformed", |s| {
            s.other = Some((vec![2, 5, 4, 6], "DE".to_owned()));
        }),
        ("WrongOrganizations", |s| s.groups.clear()),
        ("WrongOrganizations", |s| s.groups.truncate(1)),
        ("WrongOrganizations", |s| {
            s.groups[1] = "system:masters".to_owned();
        }),
        ("WrongOrganizations", |s| s.groups[0].push('c')),
        ("WrongOrganizationalUnits", |s| s.units.push("u".to_owned())),
        ("WrongAlternativeName", |s| {
            s.names.push(dns("b.addon.open-cluster-management.io"));
        }),
        ("WrongAlternativeName", |s| {
            s.names = vec![SanType::IpAddress([10, 0, 0, 1].into())];
        }),
        ("WrongAlternativeName", |s| {
            s.names.push(SanType::URI("spiffe://x".try_into().unwrap()));
        }),
        ("WrongAlternativeName", |s| {
            s.names.push(SanType::Rfc822Name("a@b".try_into().unwrap()));
        }),
    ];
    for (index, (wanted, spoil)) in cases.into_iter().enumerate() {
        let mut sample = Sample::good();
        spoil(&mut sample);
        assert_eq!(reason(&sample.request()), wanted, "case {index}");
    }
}

fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

#[test]
fn system_authenticated_is_ignored_for_the_hubs_own_signer_only() {
    let mut sample = Sample::good();
    sample.groups[1] = "system:authenticated".to_owned();
    assert_eq!(reason(&sample.request()), "WrongOrganizations");
    let subject = Subject {
        groups: vec!["g".to_owned()],
        ..Subject::default()
    };
    let content = Request {
        common_name: String::new(),
        organizations: ["g".to_owned(), "system:authenticated".to_owned()].into(),
        organizational_units: BTreeSet::new(),
        alternative_names: Vec::new(),
    };
    let granted = Granted {
        custom: false,
        subject,
    };
    assert_eq!(check_subject(&content, &granted), Ok(()));
    let granted = Granted {
        custom: true,
        ..granted
    };
    assert!(check_subject(&content, &granted).is_err());
}

#[test]
fn the_cluster_must_be_in_and_have_the_add_on() {
    let request = Sample::good().request();
    let (cluster, addon) = (managed_cluster(), cluster_addon());
    let gone = || Some(Time(jiff::Timestamp::UNIX_EPOCH));
    let mut rejected = cluster.clone();
    rejected.spec.hub_accepts_client = false;
    let mut leaving = cluster.clone();
    leaving.metadata.deletion_timestamp = gone();
    let mut disabled = addon.clone();
    disabled.metadata.deletion_timestamp = gone();
    let foreign = ManagedClusterAddOn::default();
    let cases = [
        ("NoCluster", None, Some(&addon)),
        ("ClusterNotAccepted", Some(&rejected), Some(&addon)),
        ("ClusterDeleting", Some(&leaving), Some(&addon)),
        ("AddonNotEnabled", Some(&cluster), None),
        ("AddonDeleting", Some(&cluster), Some(&disabled)),
        ("ClusterNotServed", Some(&cluster), Some(&foreign)),
    ];
    for (wanted, cluster, addon) in cases {
        let found = judge_on(&request, cluster, addon).unwrap_err();
        assert_eq!(found.reason, wanted);
    }
}

#[test]
fn a_request_signed_with_another_key_is_refused() {
    let (mine, theirs) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let good = Sample::good().params().serialize_request(&mine).unwrap();
    let mut der = good.der().to_vec();
    let theirs = theirs.public_key_raw();
    let mine = mine.public_key_raw();
    let at = der
        .windows(mine.len())
        .position(|window| window == mine)
        .unwrap();
    der[at..at + mine.len()].copy_from_slice(theirs);
    assert_eq!(reason(&request(&to_pem(&der))), "WrongSignature");
}

fn to_pem(der: &[u8]) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::from("-----BEGIN CERTIFICATE REQUEST-----\n");
    for chunk in der.chunks(3) {
        let bytes = [
            chunk[0],
            *chunk.get(1).unwrap_or(&0),
            *chunk.get(2).unwrap_or(&0),
        ];
        let bits = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]);
        for index in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * index)) as usize & 63];
            text.push(if index <= chunk.len() {
                digit.into()
            } else {
                '='
            });
        }
    }
    text.push_str("\n-----END CERTIFICATE REQUEST-----\n");
    text
}

#[test]
fn text_that_two_parsers_could_read_differently_is_refused() {
    let good = Sample::good().pem(&KeyPair::generate().unwrap());
    assert_eq!(reason(&request(&good)), "granted");
    let begin = "-----BEGIN CERTIFICATE REQUEST-----";
    let cases = [
        String::new(),
        "nonsense".to_owned(),
        format!("{good}{good}"),
        format!("text\n{good}"),
        format!("{good}text"),
        good.replace("CERTIFICATE REQUEST", "CERTIFICATE"),
        good.replace(begin, &format!("{begin}\nProc-Type: 4,ENCRYPTED\n")),
        good.replace(
            begin,
            &format!("{begin}\n-----BEGIN CERTIFICATE REQUEST-----"),
        ),
        format!("{begin}\n-----END CERTIFICATE REQUEST-----\n"),
    ];
    for text in cases {
        assert_eq!(reason(&request(&text)), "Malformed", "{text}");
    }
    let mut request = request(&good);
    request.spec.request = ByteString(vec![0xff, 0xfe]);
    assert_eq!(reason(&request), "Malformed");
}

#[test]
fn progress_is_read_from_conditions_and_certificate() {
    let mut request = Sample::good().request();
    assert_eq!(progress(&request), Progress::Pending);
    for (kind, wanted) in [
        ("Approved", Progress::Approved),
        ("Denied", Progress::Denied),
        ("Failed", Progress::Denied),
    ] {
        request.status = Some(CertificateSigningRequestStatus {
            certificate: None,
            conditions: Some(vec![CertificateSigningRequestCondition {
                type_: kind.to_owned(),
                status: "True".to_owned(),
                ..CertificateSigningRequestCondition::default()
            }]),
        });
        assert_eq!(progress(&request), wanted);
    }
    request.status.as_mut().unwrap().certificate = Some(ByteString(b"pem".to_vec()));
    assert_eq!(progress(&request), Progress::Issued);
}

proptest! {
    #[test]
    fn no_bytes_make_the_check_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut request = request("");
        request.spec.request = ByteString(bytes.clone());
        prop_assert!(judge(&request).is_err());
        let text = to_pem(&bytes);
        request.spec.request = ByteString(text.into_bytes());
        prop_assert!(judge(&request).is_err());
    }

    #[test]
    fn only_the_exact_cluster_is_a_requester(cluster in "[a-z]{1,3}", agent in "[a-z:]{0,3}") {
        let mut request = Sample::good().request();
        user(&mut request, &format!("system:open-cluster-management:{cluster}:{agent}"));
        let right = cluster == "ab" && !agent.is_empty() && !agent.contains(':');
        prop_assert_eq!(judge(&request).is_ok(), right);
    }
}
