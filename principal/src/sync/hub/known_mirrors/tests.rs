use protocol::Kind;

use super::*;
use crate::testing::name;

const SMALL: Size = Size {
    text: 10,
    memory: 10,
};

/// `own-b` takes the name over while a create of `own` is under way.
#[test]
fn late_result_of_the_former_owner_of_a_name_changes_nothing() {
    let mut mirrors = KnownMirrors::new(MirrorLimits::default());
    let key = ObjectKey::new(Kind::AppProject, "argocd", "own-b-c");
    let (former, owner) = (name("own"), name("own-b"));
    mirrors.begin(&key, &former, "former", SMALL).unwrap();
    mirrors.take_over(&key, &owner);
    mirrors.begin(&key, &owner, "owner", SMALL).unwrap();
    mirrors.wrote(&key, &former, "digest".to_owned(), Arc::default());
    mirrors.give_up(&key, &former);
    assert!(mirrors.keeps(&key, &owner, "owner"));
    assert_eq!(mirrors.digest(&key, &Arc::default()), None);
    mirrors.give_up(&key, &owner);
    assert!(!mirrors.keeps(&key, &owner, "owner"));
}

#[test]
fn memory_of_one_mirror_is_bounded() {
    let mut mirrors = KnownMirrors::new(MirrorLimits::default());
    let key = ObjectKey::new(Kind::Application, "own", "a");
    let size = |memory| Size { text: 1, memory };
    let refused = mirrors.begin(&key, &name("own"), "a", size((8 << 20) + 1));
    let refused = refused.unwrap_err();
    assert!(refused.contains("for a mirror"), "{refused}");
    mirrors
        .begin(&key, &name("own"), "a", size(8 << 20))
        .unwrap();
}

#[test]
fn memory_of_the_mirrors_of_a_cluster_is_bounded() {
    let limits = MirrorLimits {
        memory: 100,
        ..MirrorLimits::default()
    };
    let mut mirrors = KnownMirrors::new(limits);
    let key = |name: &str| ObjectKey::new(Kind::Application, "own", name);
    let (own, other) = (name("own"), name("other"));
    let size = |memory| Size { text: 1, memory };
    mirrors.begin(&key("a"), &own, "a", size(60)).unwrap();
    let refused = mirrors.begin(&key("b"), &own, "b", size(41)).unwrap_err();
    assert!(refused.contains("100 bytes of memory"), "{refused}");
    mirrors.begin(&key("b"), &own, "b", size(40)).unwrap();
    mirrors.begin(&key("c"), &own, "c", size(1)).unwrap_err();
    mirrors.begin(&key("a"), &own, "a", size(59)).unwrap();
    mirrors.begin(&key("c"), &own, "c", size(1)).unwrap();
    mirrors.begin(&key("d"), &other, "d", size(100)).unwrap();
    mirrors.give_up(&key("a"), &own);
    mirrors.begin(&key("a"), &own, "a", size(59)).unwrap();
}
