//! Reads what `check spoke` needs, of the cluster, of the hub and on the way between. Nothing that cannot be read ends it: that
//! is a finding, too.

mod at_hub;

use argocd::keys::addon::{AGENT_TRUST, CA_SECRET, NEXT_CA};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

use super::{Answer, Error};
use crate::{
    args::{Global, SpokeArgs},
    check::spoke::{
        Configured, DEFINITIONS, Facts, Given, Many, NEEDS, Need, NeedPlace, One, Places, REDIS,
        Source, Spoke, Way, address, check, matters, places, proxy, work_account,
    },
    hub::{
        About, By, CONFIG_MAPS, DEFINITIONS as KIND_DEFINITIONS, DEPLOYMENTS, FENCES, Hub,
        KLUSTERLETS, NAMESPACES, OTHERS_ACCESS_REVIEWS, PODS, SECRETS, SERVICES, STATEFUL_SETS,
        Target,
    },
    object::{secret_text, text},
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
    let kubeconfig = args
        .spoke_kubeconfig
        .as_ref()
        .or(global.kubeconfig.as_ref());
    let spoke = Hub::connect(
        Target::Cluster,
        kubeconfig.map(std::path::PathBuf::as_path),
        args.spoke_context.as_deref(),
    );
    let spoke = spoke.await?.watched_by(progress);
    let hub = if args.without_hub {
        None
    } else {
        Some(super::hub_of(global).await?.watched_by(progress))
    };
    progress.show("reading from the cluster, the hub and the principal's endpoint");
    let facts = facts(&spoke, hub.as_ref(), global, args, place).await?;
    let findings = check(&facts);
    Answer::of(&findings, place, findings.has_failed())
}

async fn facts(
    spoke: &Hub,
    hub: Option<&Hub>,
    global: &Global,
    args: &SpokeArgs,
    place: Place,
) -> Result<Facts, Error> {
    let api = spoke.about().await.map_err(|error| error.to_string());
    let programs = match &api {
        Ok(_) => programs(spoke).await,
        Err(_) => Ok(Vec::new()),
    };
    let cluster = match (&args.cluster, &api) {
        (Some(cluster), _) => Some(super::is_name(cluster)?.to_string()),
        (None, Ok(_)) => name(spoke).await,
        (None, Err(_)) => None,
    };
    let at_hub = match hub {
        Some(hub) => Some(at_hub::read(hub, global, cluster.as_deref()).await?),
        None => None,
    };
    let given = Given {
        agent: args.agent_namespace.clone(),
        argocd: args.spoke_argocd_namespace.clone(),
        address: args.principal_address.clone(),
    };
    let configured = at_hub
        .as_ref()
        .map_or_else(Configured::default, |it| it.configured.clone());
    let known = programs.as_deref().unwrap_or_default();
    let addon = at_hub.as_ref().and_then(at_hub::AtHub::addon);
    let places = places(&given, known, addon, &configured);
    let addresses = at_hub
        .as_ref()
        .map_or(&[][..], |it| it.addresses.as_slice());
    let address = address(&given, known, &configured, addresses);
    let beside = api.is_ok().then_some((spoke, &places));
    let roots = roots(beside, hub, global).await;
    let way = gone(address, proxy(known), &roots, place).await;
    Ok(Facts {
        cluster,
        spoke: of_spoke(spoke, &api, &places, programs).await,
        places,
        configured,
        api,
        hub: at_hub.map(|it| it.hub),
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
    let (dialled, handshake) = match &address {
        Some((host, port, _)) => {
            let met = reach(host, *port, roots, place.now).await;
            (Some(met.dialled), met.handshake)
        }
        None => (None, None),
    };
    Way {
        address,
        proxy,
        dialled,
        handshake,
        now: place.now,
    }
}

async fn of_spoke(
    spoke: &Hub,
    api: &Result<About, String>,
    places: &Places,
    programs: Many,
) -> Option<Spoke> {
    api.as_ref().ok()?;
    let argocd = places.argocd.as_str();
    let account = work_account(programs.as_deref().unwrap_or_default());
    // What the password is goes no further.
    let secret = spoke.find(SECRETS, Some(argocd), REDIS).await;
    let has_password = |secret: Value| secret.pointer("/data/auth").is_some();
    Some(Spoke {
        system: spoke.find(NAMESPACES, None, "kube-system").await,
        rights: rights(spoke, places, &account).await,
        pods: spoke.find_all(PODS, &By::namespace(&places.agent)).await,
        definitions: definitions(spoke).await,
        password: secret.map(|secret| secret.map(has_password)),
        redis: spoke.find(SERVICES, Some(argocd), REDIS).await,
        fences: spoke.find_all(FENCES, &By::namespace(argocd)).await,
        programs,
    })
}

async fn programs(spoke: &Hub) -> Many {
    let (mut all, everywhere) = (Vec::new(), By::default());
    for kind in [DEPLOYMENTS, STATEFUL_SETS] {
        let keep = |program: Value| matters(&program).then_some(program);
        let programs = spoke.collect(kind, &everywhere, keep).await;
        all.extend(programs.map_err(|error| error.to_string())?);
    }
    Ok(all)
}

/// As which cluster it has joined, where an operator keeps the klusterlet.
async fn name(spoke: &Hub) -> Option<String> {
    let all = spoke.list(KLUSTERLETS, &By::default()).await.ok()?;
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
        .flat_map(|need| need.verbs.iter().map(move |verb| (need, *verb)));
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
    let (group, resource) = need.kind();
    let place = match need.place {
        NeedPlace::Everywhere => "",
        NeedPlace::Agent => places.agent.as_str(),
        NeedPlace::ArgoCd => places.argocd.as_str(),
    };
    json!({
        "user": format!("system:serviceaccount:{namespace}:{name}"),
        "groups": [
            "system:serviceaccounts", format!("system:serviceaccounts:{namespace}"), "system:authenticated",
        ],
        "resourceAttributes": {"verb": verb, "group": group, "resource": resource, "namespace": place},
    })
}

/// Whom agents trust: what stands beside the agent, else the hub's own authority.
pub(super) async fn roots(
    spoke: Option<(&Hub, &Places)>,
    hub: Option<&Hub>,
    global: &Global,
) -> Result<String, String> {
    let mut reasons = Vec::new();
    if let Some((spoke, places)) = spoke {
        match spoke
            .find(CONFIG_MAPS, Some(&places.agent), AGENT_TRUST)
            .await
        {
            Ok(map) => {
                let pem = map.as_ref().and_then(|it| it.pointer("/data/ca.crt"));
                if let Some(pem) = pem.and_then(Value::as_str) {
                    return Ok(pem.to_owned());
                }
            }
            Err(reason) => reasons.push(reason),
        }
    }
    if let Some(hub) = hub {
        let own = Some(global.own_namespace.as_str());
        match hub.find(SECRETS, own, CA_SECRET).await {
            Ok(secret) => {
                // The key is not looked at.
                let secret = secret.unwrap_or_default();
                let pem = ["tls.crt", NEXT_CA].map(|it| secret_text(&secret, it));
                let pem: String = pem.into_iter().flatten().collect();
                if !pem.is_empty() {
                    return Ok(pem);
                }
            }
            Err(reason) => reasons.push(reason),
        }
    }
    if reasons.is_empty() {
        reasons.push("no certificate authority found".to_owned());
    }
    Err(reasons.join("; "))
}
