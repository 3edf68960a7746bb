//! Requests of the resource proxy, parsed and serialized again.

use live::request::Request;

/// The longest target that is parsed; encoding may make one longer, which the other end then refuses.
const LONGEST: usize = 8 << 10;

pub(crate) fn check(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    let (method, target) = text.split_once(' ').unwrap_or(("GET", text));
    let Ok(request) = Request::parse(method, target) else {
        return;
    };
    let written = request.target();
    assert!(written.len() <= 3 * target.len() + 64, "{written}");
    assert!(
        written
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'#'),
        "{written}"
    );
    let (path, query) = written.split_once('?').unwrap_or((&written, ""));
    assert!(!query.contains('?'), "{written}");
    let segments = path.strip_prefix('/').expect("an absolute path").split('/');
    for segment in segments {
        assert!(!matches!(segment, "" | "." | ".."), "{written}");
        for hidden in ["%2F", "%2E", "%5C", "%25", "%00"] {
            assert!(!segment.contains(hidden), "{written}");
        }
    }
    let root = ["/api", "/apis", "/version", "/openapi"];
    let below = |root: &&str| {
        path.strip_prefix(*root)
            .is_some_and(|it| it.is_empty() || it.starts_with('/'))
    };
    assert!(root.iter().any(below), "{written}");
    if written.len() <= LONGEST {
        assert_eq!(Request::parse(method, &written), Ok(request), "{written}");
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    [
        "GET /version",
        "GET /api?timeout=32s",
        "GET /apis/apps/v1?timeout=32s",
        "GET /openapi/v3/apis/apps/v1?hash=A1",
        "GET /api/v1/namespaces/shop/pods/front-1/log?container=main&follow=true&tailLines=100",
        "GET /apis/apps/v1/namespaces/shop/deployments?labelSelector=a%3Db%2Cc+in+%28d%29&watch=1",
        "POST /api/v1/namespaces/shop/pods/front-1/exec?command=sh&command=-c&stdin=true&tty=true",
        "PATCH /apis/apps/v1/namespaces/shop/deployments/front/scale?fieldManager=argocd",
        "DELETE /api/v1/namespaces/shop?propagationPolicy=Foreground",
        "PUT /api/v1/namespaces/shop/finalize",
        "GET /apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
        "GET /api/v1/namespaces/a/../../secrets",
        "GET /api/v1/namespaces/%2e%2e%2fsecrets/x%252f",
        "GET //api/v1/nodes/n/proxy/metrics#x",
    ]
    .map(|seed| seed.as_bytes().to_vec())
    .to_vec()
}
