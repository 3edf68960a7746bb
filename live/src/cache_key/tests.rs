use proptest::prelude::*;

use super::{CacheKey, Item};

fn key(item: Item, namespace: Option<&str>, shard: Option<u32>, version: &str) -> CacheKey {
    CacheKey {
        item,
        namespace: namespace.map(ToOwned::to_owned),
        name: "guestbook".to_owned(),
        shard,
        version: version.to_owned(),
    }
}

#[test]
fn keys_are_those_of_argo_cd() {
    for (text, is) in [
        (
            "app|resources-tree|guestbook|1.8.3.gz",
            key(Item::ResourcesTree, None, None, "1.8.3.gz"),
        ),
        (
            "app|resources-tree|spoke1_guestbook|3|1.8.3.gz",
            key(Item::ResourcesTree, Some("spoke1"), Some(3), "1.8.3.gz"),
        ),
        (
            "app|managed-resources|spoke1_guestbook|1.8.3",
            key(Item::ManagedResources, Some("spoke1"), None, "1.8.3"),
        ),
    ] {
        assert_eq!(CacheKey::parse(text.as_bytes()), Some(is.clone()), "{text}");
        assert_eq!(is.to_string(), text);
    }
}

#[test]
fn redis_key_without_application_stays_on_the_hub() {
    for text in [
        "cluster|info|https://kubernetes.default.svc|1.8.3.gz",
        "mfst|app.kubernetes.io/instance|guestbook|abc|1.8.3.gz",
        "git-refs|https://example.com/repo.git|1.8.3.gz",
        "new-revoked-token",
        "app|resources-tree|guestbook",
        "app|resources-tree|guestbook|1|2|1.8.3",
        "app|resources-tree|guestbook|0|1.8.3",
        "app|resources-tree|guestbook|01|1.8.3",
        "app|managed-resources|guestbook|1|1.8.3",
        "app|resources-tree|a_b_c|1.8.3",
        "app|resources-tree|_guestbook|1.8.3",
        "app|resources-tree|spoke1_|1.8.3",
        "app|resources-tree|Guestbook|1.8.3",
        "app|resources-tree|guest/book|1.8.3",
        "app|resources-tree|guestbook|1.8.3/..",
        "app|resources-tree|guestbook|",
        "app|something-new|guestbook|1.8.3",
        "prefix|app|resources-tree|guestbook|1.8.3",
        "app|resources-tree|guestbook|1.8.3\r\nDEL x",
    ] {
        assert_eq!(CacheKey::parse(text.as_bytes()), None, "{text}");
    }
    assert_eq!(CacheKey::parse(b"app|resources-tree|\xff|1"), None);
}

#[test]
fn request_paths_are_parsed_or_refused() {
    let tree = key(Item::ResourcesTree, None, Some(2), "1.8.3.gz");
    let target = tree.target(false);
    assert_eq!(
        target,
        "/argocd/cache/resources-tree/-/guestbook/2/1.8.3.gz"
    );
    for bad in [
        "/argocd/cache/resources-tree/-/guestbook/2/1.8.3.gz?watch=false",
        "/argocd/cache/resources-tree/-/guestbook/2/1.8.3.gz/x",
        "/argocd/cache/resources-tree//guestbook/0/1.8.3.gz",
        "/argocd/cache/resources-tree/../guestbook/0/1.8.3.gz",
        "/argocd/cache/resources-tree/-/guest|book/0/1.8.3.gz",
        "/argocd/cache/managed-resources/-/guestbook/1/1.8.3.gz",
        "/argocd/cache/secrets/-/guestbook/0/1.8.3.gz",
        "/api/v1/pods",
    ] {
        assert_eq!(CacheKey::from_target(bad), None, "{bad}");
    }
}

fn any_key() -> impl Strategy<Value = CacheKey> {
    let parts = (
        any::<bool>(),
        proptest::option::of("[a-z][a-z0-9-]{0,10}[a-z0-9]"),
        "[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?",
        proptest::option::of(1u32..1000),
        "[0-9]\\.[0-9]\\.[0-9](\\.gz)?",
    );
    parts.prop_map(|(is_tree, namespace, name, shard, version)| CacheKey {
        item: if is_tree {
            Item::ResourcesTree
        } else {
            Item::ManagedResources
        },
        namespace,
        name,
        shard: shard.filter(|_| is_tree),
        version,
    })
}

proptest! {
    #[test]
    fn keys_and_requests_are_read_as_they_were_written(key in any_key(), watch in any::<bool>()) {
        prop_assert_eq!(CacheKey::parse(key.to_string().as_bytes()), Some(key.clone()));
        prop_assert_eq!(CacheKey::from_target(&key.target(watch)), Some((key, watch)));
    }

    /// Every accepted text is in canonical form.
    #[test]
    fn garbage_is_read_as_nothing(
        text in "(app\\|)?(resources-tree|managed-resources|x)?[|/a_.0-9-]{0,20}",
    ) {
        if let Some(key) = CacheKey::parse(text.as_bytes()) {
            prop_assert_eq!(key.to_string(), text.clone());
        }
        if let Some((key, watch)) = CacheKey::from_target(&text) {
            prop_assert_eq!(key.target(watch), text);
        }
    }
}
