//! Reads what `check spoke` needs, of the cluster, of the hub and on the way between. Nothing that cannot be read ends it: that
//! is a finding, too.

mod at_hub;

use argocd::keys::addon::{AGENT_TRUST, CA_SECRET, NEXT_CA};
use diagnosis::object::{secret_text, text};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

use super::{Answer, Context, Error, is_name};
use crate::{
    args::{Global, SpokeArgs},
    check::{
        asked,
        spoke::{
            Configured, DEFINITIONS, Facts, Hub as AtHub, Many, NEEDS, Need, One, Places,
            RedisPlace, Source, Spoke, Way, address, check, matters, places, proxy, redis_place,
            work_account,
        },
    },
    hub::{
        CONFIG_MAPS, DEFINITIONS as KIND_DEFINITIONS, DEPLOYMENTS, FENCES, Hub, KLUSTERLETS,
        NAMESPACES, OTHERS_ACCESS_REVIEWS, PODS, SECRETS, SERVICES, STATEFUL_SETS, Target, all,
    },
    output::Place,
    progress::Progress,
    reach::reach,
};

/// So many questions about rights are open at once.
const AT_ONCE: usize = 8;

/// Looks at everything; `place` is where it is shown.
pub(super) async fn inspect(
    global: &Global,
    args: &SpokeArgs,
    place: Place,
    progress: &Progress,
) -> Result<Answer, Error> {
    // It may do without the hub.
    is_name(&global.own_namespace)?;
    let kubeconfig = args.spoke_kubeconfig.as_deref();
    let kubeconfig = kubeconfig.or(global.kubeconfig.as_deref());
    let context = args.spoke_context.as_deref();
    let spoke = Hub::connect(Target::Cluster, kubeconfig, context, progress).await?;
    let hub = if args.without_hub {
        None
    } else {
        Some(Context::connect(global, place, progress).await?)
    };
    progress.show("reading from the cluster, the hub and the principal's endpoint");
    let facts = facts(&spoke, hub.as_ref(), args, place).await?;
    let findings = check(&facts);
    Answer::of(&findings, place, findings.has_failed())
}

async fn facts(
    spoke: &Hub,
    hub: Option<&Context<'_>>,
    args: &SpokeArgs,
    place: Place,
) -> Result<Facts, Error> {
    let api = spoke.about().await.map_err(|error| error.to_string());
    let programs = match &api {
        Ok(_) => programs(spoke).await,
        Err(_) => Ok(Vec::new()),
    };
    args.cluster.as_deref().map(is_name).transpose()?;
    let cluster = match (args.cluster.clone(), &api) {
        (None, Ok(_)) => name(spoke).await,
        (given, _) => given,
    };
    let (hub_side, configured, addresses) = match hub {
        Some(hub) => at_hub::read(hub, cluster.as_deref()).await?,
        None => (None, Configured::default(), Vec::new()),
    };
    let known = programs.as_deref().unwrap_or_default();
    let addon = hub_side.as_ref().and_then(AtHub::addon);
    let places = places(&args.given, known, addon, &configured);
    let address = address(&args.given, known, &configured, &addresses);
    let beside = api.is_ok().then_some((spoke, &places));
    let roots = roots(beside, hub).await;
    let way = gone(address, proxy(known), &roots, place).await;
    let spoke = match &api {
        Ok(_) => Some(of_spoke(spoke, &places, &configured, programs).await),
        Err(_) => None,
    };
    Ok(Facts {
        cluster,
        spoke,
        places,
        configured,
        api,
        hub: hub_side,
        way,
    })
}

/// Goes the way, if it is known.
pub(super) async fn gone(
    address: Option<(String, u16, Source)>,
    proxy: Option<String>,
    roots: &Result<String, String>,
    place: Place,
) -> Way {
    let met = match &address {
        Some((host, port, _)) => Some(reach(host, *port, roots, place.now).await),
        None => None,
    };
    Way {
        address,
        proxy,
        met,
        now: place.now,
    }
}

async fn of_spoke(spoke: &Hub, places: &Places, configured: &Configured, programs: Many) -> Spoke {
    let argocd = Some(places.argocd.as_str());
    let known = programs.as_deref().unwrap_or_default();
    let account = work_account(known);
    let redis = redis(spoke, places, configured, known).await;
    Spoke {
        system: spoke.find(NAMESPACES, None, "kube-system").await,
        rights: rights(spoke, places, &account).await,
        pods: spoke.find_all(PODS, Some(&places.agent), all()).await,
        definitions: definitions(spoke).await,
        password: password(spoke, places, &redis).await,
        redis,
        fences: spoke.find_all(FENCES, argocd, all()).await,
        programs,
    }
}

/// The redis that the agent uses; where its address is configured, the Services do not matter.
async fn redis(
    spoke: &Hub,
    places: &Places,
    configured: &Configured,
    programs: &[Value],
) -> Result<RedisPlace, String> {
    let services = spoke.find_all(SERVICES, Some(&places.argocd), all()).await;
    let found = services.as_deref().unwrap_or_default();
    let place = redis_place(configured, programs, found);
    match services {
        Err(reason) if place.address.is_none() => Err(reason),
        Ok(_) | Err(_) => Ok(place),
    }
}

/// Whether its Secret has a password. What the password is goes no further.
async fn password(
    spoke: &Hub,
    places: &Places,
    redis: &Result<RedisPlace, String>,
) -> Result<Option<bool>, String> {
    let known = redis.as_ref().ok().and_then(|it| it.password.as_ref());
    let Some((secret, key)) = known else {
        return Ok(None);
    };
    let secret = spoke.find(SECRETS, Some(&places.argocd), secret).await?;
    let value = |secret: Value| secret.get("data")?.get(key).cloned();
    Ok(secret.map(|secret| value(secret).is_some()))
}

async fn programs(spoke: &Hub) -> Many {
    let mut found = Vec::new();
    for kind in [DEPLOYMENTS, STATEFUL_SETS] {
        let keep = |program: Value| matters(&program).then_some(program);
        let programs = spoke.collect(kind, None, all(), keep).await;
        found.extend(programs.map_err(|error| error.to_string())?);
    }
    Ok(found)
}

/// As which cluster it has joined, where an operator keeps the klusterlet.
async fn name(spoke: &Hub) -> Option<String> {
    let all = spoke.find_all(KLUSTERLETS, None, all()).await.ok()?;
    let mut names = all.iter().map(|it| text(it, "/spec/clusterName"));
    names.find(|name| !name.is_empty()).map(str::to_owned)
}

async fn definitions(cluster: &Hub) -> Vec<(&'static str, One)> {
    let mut all = Vec::new();
    for name in DEFINITIONS {
        all.push((name, cluster.find(KIND_DEFINITIONS, None, name).await));
    }
    all
}

async fn rights(
    spoke: &Hub,
    places: &Places,
    account: &(String, String),
) -> Vec<(&'static Need, Result<bool, String>)> {
    let questions = NEEDS
        .iter()
        .flat_map(|need| need.1.iter().map(move |verb| (need, *verb)));
    let answers = questions.map(|(need, verb)| async move {
        let review = review(need, verb, places, account);
        (need, spoke.allows(OTHERS_ACCESS_REVIEWS, &review).await)
    });
    let answers: Vec<_> = stream::iter(answers).buffered(AT_ONCE).collect().await;
    let of = |need: &'static Need| {
        let mut of = answers.iter().filter(|(it, _)| *it == need);
        let worst = of.find(|(_, answer)| *answer != Ok(true));
        (need, worst.map_or(Ok(true), |(_, answer)| answer.clone()))
    };
    NEEDS.iter().map(of).collect()
}

/// As the API would judge it: an account is in these groups, too.
fn review(need: &Need, verb: &str, places: &Places, (namespace, name): &(String, String)) -> Value {
    let Need(resource, _, place, _) = need;
    let place = place.namespace(&places.argocd, &places.agent);
    json!({
        "user": format!("system:serviceaccount:{namespace}:{name}"),
        "groups": [
            "system:serviceaccounts", format!("system:serviceaccounts:{namespace}"), "system:authenticated",
        ],
        "resourceAttributes": asked(verb, resource, "", place),
    })
}

/// Whom agents trust: what stands beside the agent, else the hub's own authority.
pub(super) async fn roots(
    spoke: Option<(&Hub, &Places)>,
    hub: Option<&Context<'_>>,
) -> Result<String, String> {
    let mut reasons = Vec::new();
    let mut found = |read: One, pem: fn(&Value) -> String| match read {
        Ok(object) => object.as_ref().map(pem).filter(|pem| !pem.is_empty()),
        Err(reason) => {
            reasons.push(reason);
            None
        }
    };
    if let Some((spoke, places)) = spoke {
        let trust = spoke.find(CONFIG_MAPS, Some(&places.agent), AGENT_TRUST);
        if let Some(pem) = found(trust.await, |it| text(it, "/data/ca.crt").to_owned()) {
            return Ok(pem);
        }
    }
    if let Some(hub) = hub {
        let secret = hub.hub.find(SECRETS, Some(hub.own()), CA_SECRET).await;
        // The key is not looked at.
        let certificates = |secret: &Value| {
            let pem = ["tls.crt", NEXT_CA].map(|it| secret_text(secret, it));
            pem.into_iter().flatten().collect()
        };
        if let Some(pem) = found(secret, certificates) {
            return Ok(pem);
        }
    }
    if reasons.is_empty() {
        reasons.push("no certificate authority found".to_owned());
    }
    Err(reasons.join("; "))
}
