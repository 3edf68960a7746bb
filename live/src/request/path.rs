//! Paths of the Kubernetes API, read and written.

use argocd::name::{LONGEST_NAME, is_dns_label, is_name};

use super::{Object, Subject, Unreadable};

/// Reads a path, each segment of which is decoded once.
pub(super) fn read(path: &str) -> Result<Subject, Unreadable> {
    let rest = path
        .strip_prefix('/')
        .ok_or(Unreadable::Path("it does not begin with a slash"))?;
    let segments: Vec<String> = rest.split('/').map(segment).collect::<Result<_, _>>()?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let groups = |core, group| Subject::Groups { core, group };
    match segments.as_slice() {
        ["version"] => Ok(Subject::Version),
        ["openapi", "v2"] | ["openapi", "v3", ..] => schema(&segments),
        ["api"] => Ok(groups(true, None)),
        ["apis"] => Ok(groups(false, None)),
        ["apis", group] => Ok(groups(false, Some(name_of_group(group)?))),
        ["api", version, rest @ ..] => objects(String::new(), version, rest),
        ["apis", group, version, rest @ ..] => objects(name_of_group(group)?, version, rest),
        _ => Err(Unreadable::Path(
            "it is not below /api, /apis, /version or /openapi",
        )),
    }
}

/// `/openapi/v3` has documents with the names of the groups' paths.
fn schema(segments: &[&str]) -> Result<Subject, Unreadable> {
    let good = match segments {
        ["openapi", "v2" | "v3"] => true,
        ["openapi", "v3", "api", version] => is_dns_label(version),
        ["openapi", "v3", "apis", group] => is_name(group),
        ["openapi", "v3", "apis", group, version] => is_name(group) && is_dns_label(version),
        _ => false,
    };
    if !good {
        return Err(Unreadable::Path("there is no such document in /openapi"));
    }
    let document = segments.iter().skip(1).map(|it| (*it).to_owned()).collect();
    Ok(Subject::Schema { document })
}

fn objects(group: String, version: &str, rest: &[&str]) -> Result<Subject, Unreadable> {
    if !version.starts_with('v') || !is_dns_label(version) {
        return Err(Unreadable::Path("the version is not one"));
    }
    let version = version.to_owned();
    let (namespace, resource, rest) = match rest {
        [] => return Ok(Subject::Kinds { group, version }),
        // Older forms, with which a client could address an object by another path.
        ["watch" | "proxy" | "redirect", ..] => {
            return Err(Unreadable::Path("its form is not supported any more"));
        }
        // Subresources of the namespace itself.
        ["namespaces", _, "status" | "finalize"] if group.is_empty() => {
            (None, "namespaces", rest.get(1..).unwrap_or_default())
        }
        ["namespaces", namespace, resource, rest @ ..] => (Some(*namespace), *resource, rest),
        [resource, rest @ ..] => (None, *resource, rest),
    };
    let (name, subresource) = match rest {
        [] => (None, None),
        [name] => (Some(*name), None),
        [name, subresource] => (Some(*name), Some(*subresource)),
        _ => return Err(Unreadable::Path("it goes on after the part of an object")),
    };
    if namespace.is_some_and(|it| !is_dns_label(it)) {
        return Err(Unreadable::Path("the namespace is not one"));
    }
    if !is_dns_label(resource) || subresource.is_some_and(|it| !is_dns_label(it)) {
        return Err(Unreadable::Path("the resource is not one"));
    }
    Ok(Subject::Object(Object {
        group,
        version,
        resource: resource.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: name.map(str::to_owned),
        subresource: subresource.map(str::to_owned),
    }))
}

fn name_of_group(text: &str) -> Result<String, Unreadable> {
    let group = is_name(text).then(|| text.to_owned());
    group.ok_or(Unreadable::Path("the group is not one"))
}

/// A segment, decoded once. Rejects segments that the API server does not accept.
fn segment(raw: &str) -> Result<String, Unreadable> {
    let decoded =
        super::query::decoded(raw, false).ok_or(Unreadable::Path("it is badly encoded"))?;
    if decoded.is_empty() {
        return Err(Unreadable::Path("a part of it is empty"));
    }
    if decoded == "." || decoded == ".." || decoded.contains(['/', '\\']) {
        return Err(Unreadable::Path("a part of it leads elsewhere"));
    }
    // No object has it in its name: it would only serve to be decoded a second time.
    if decoded.contains('%') {
        return Err(Unreadable::Path("it is encoded twice"));
    }
    if decoded.chars().any(char::is_control) || decoded.len() > LONGEST_NAME {
        return Err(Unreadable::Path("a part of it is no name"));
    }
    Ok(decoded)
}

/// The path of a subject.
pub(super) fn written(subject: &Subject) -> String {
    let mut text = String::new();
    let mut add = |segment: &str| {
        text.push('/');
        super::query::encode_into(&mut text, segment, true);
    };
    match subject {
        Subject::Version => add("version"),
        Subject::Groups { core, group } => {
            add(if *core { "api" } else { "apis" });
            if let Some(group) = group {
                add(group);
            }
        }
        Subject::Kinds { group, version } => root(&mut add, group, version),
        Subject::Schema { document } => {
            add("openapi");
            for segment in document {
                add(segment);
            }
        }
        Subject::Object(object) => {
            root(&mut add, &object.group, &object.version);
            if let Some(namespace) = &object.namespace {
                add("namespaces");
                add(namespace);
            }
            add(&object.resource);
            let rest = [&object.name, &object.subresource].into_iter().flatten();
            rest.for_each(|part| add(part));
        }
    }
    text
}

fn root(add: &mut impl FnMut(&str), group: &str, version: &str) {
    if group.is_empty() {
        add("api");
    } else {
        add("apis");
        add(group);
    }
    add(version);
}
