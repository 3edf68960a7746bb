import {json, serve} from './setup';
import assert from 'node:assert/strict';
import {test} from 'node:test';
import * as decode from '../src/api/decode';
import {refused} from '../src/api/failure';
import {explained} from '../src/delivery/asked';
import {askCluster, askFleet, askPath} from '../src/api/question';
import {ask} from '../src/api/request';
import {argocdNamespace} from '../src/settings';
import {clusterJson, detailsJson, fleetJson, pathJson} from './samples';

const APPLICATION = {metadata: {name: 'shop', namespace: 'team'}, spec: {project: 'web'}};

test('the namespace of Argo CD comes from the settings', () => {
    assert.equal(argocdNamespace({namespace: 'openshift-gitops'}), 'openshift-gitops');
    for (const wrong of [undefined, null, 'x', {}, {namespace: 7}, {namespace: 'a/b'}, {namespace: '-a'}]) {
        assert.equal(argocdNamespace(wrong), 'argocd');
    }
});

test('questions have the headers that the proxy verifies', () => {
    assert.deepEqual(askPath(APPLICATION).headers, {'Argocd-Application-Name': 'team:shop', 'Argocd-Project-Name': 'web'});
    assert.equal(askPath(APPLICATION).path, 'extensions/argocd-agent/api/v1/applications/team/shop/path');
    assert.deepEqual(askFleet().headers, {
        'Argocd-Application-Name': 'argocd:argocd-agent-fleet',
        'Argocd-Project-Name': 'argocd-agent-fleet',
    });
    assert.equal(askCluster('berlin').path, 'extensions/argocd-agent-fleet/api/v1/clusters/berlin');
});

test('an Application without namespace or project has the defaults', () => {
    const {headers, path} = askPath({metadata: {name: 'shop'}});
    assert.deepEqual(headers, {'Argocd-Application-Name': 'argocd:shop', 'Argocd-Project-Name': 'default'});
    assert.equal(path, 'extensions/argocd-agent/api/v1/applications/argocd/shop/path');
});

test('names cannot change the path of a request', () => {
    assert.equal(askCluster('a/../b?c#d').path, 'extensions/argocd-agent-fleet/api/v1/clusters/a%2F..%2Fb%3Fc%23d');
    for (const name of ['', '.', '..']) {
        assert.equal(askCluster(name).path, null);
    }
});

test('answers of the contract are decoded', () => {
    const fleet = decode.fleet(fleetJson([clusterJson('berlin')]));
    assert.equal(fleet?.clusters[0]?.connected.state, 'yes');
    assert.deepEqual(fleet?.clusters[0]?.applications.sync, [['Synced', 2]]);
    assert.equal(fleet?.clusters[0]?.labels.get('env'), 'prod');
    const details = decode.clusterDetails(detailsJson());
    assert.equal(details?.history.length, 2);
    assert.equal(details?.certificate?.description, 'a certificate');
    const path = decode.path(pathJson());
    assert.equal(path?.hops[1]?.text, 'its agent is not connected');
    assert.equal(path?.timeline[0]?.trace, '4bf92f3577b34da6a3ce929d0e0e4736');
    assert.equal(path?.connection?.state, 'no');
});

test('parts of another form are absent', () => {
    const odd = {name: 'odd', connected: 7, applications: {total: 'x', sync: {Synced: -1}, health: []}, labels: {a: 5}, degraded: 'no'};
    const [cluster] = decode.fleet(fleetJson([odd, {name: 3}, clusterJson('odd')]))?.clusters ?? [];
    assert.equal(cluster?.mode, 'managed', 'of two with a name the last stays');
    const only = decode.fleet(fleetJson([odd]))?.clusters[0];
    assert.deepEqual(only?.connected, {state: 'unknown', since: null});
    assert.deepEqual(only?.applications.sync, []);
    assert.equal(only?.degraded, false);
    assert.equal(only?.labels.get('a'), '');
});

test('an answer without its main part is refused', () => {
    for (const wrong of [null, [], 'x', {}, {clusters: {}}]) {
        assert.equal(decode.fleet(wrong), null);
        assert.equal(decode.path(wrong), null);
        assert.equal(decode.clusterDetails(wrong), null);
    }
});

test('long lists are cut', () => {
    const hops = Array.from({length: 10_000}, () => ({hop: 'x', state: 'good', what: 'y'}));
    assert.equal(decode.path(pathJson({hops}))?.hops.length, 500);
});

test('labels with names of JavaScript are labels', () => {
    const labels: unknown = JSON.parse('{"__proto__": "x", "constructor": "y"}');
    const cluster = decode.fleet(fleetJson([clusterJson('a', {labels})]))?.clusters[0];
    assert.equal(cluster?.labels.get('__proto__'), 'x');
    assert.equal(cluster?.labels.get('constructor'), 'y');
});

test('refusals of argocd-server have a cause and a next step', () => {
    const cases: [number, string, 'fleet' | 'application', RegExp][] = [
        [401, 'Invalid token', 'application', /session at Argo CD has ended.*sign in/],
        [400, 'Auth cookie not found', 'fleet', /session at Argo CD has ended/],
        [401, 'Unauthorized extension request', 'fleet', /policies.*`get` on the Application argocd-agent-fleet/],
        [403, '', 'application', /policies.*extension argocd-agent$/],
        [404, 'Extension not found', 'fleet', /does not forward.*argocd-agentctl hub setup/],
        [404, 'page not found', 'application', /does not know this Application.*argocd-agentctl check hub/],
        [502, '', 'fleet', /cannot reach the hub program.*argocd-agentctl check hub/],
        [503, 'no endpoints', 'fleet', /not ready.*wait/],
        [500, '<html>', 'fleet', /status 500: <html>/],
    ];
    for (const [status, body, subject, expected] of cases) {
        const {cause, next} = refused({status, body}, subject);
        assert.match(`${cause} ${next}`, expected);
    }
});

test('a refusal of the hub program is shown as it is, but cut', () => {
    const body = JSON.stringify({error: 'not yet', next: 'wait '.repeat(1000)});
    const {cause, next, lasting} = refused({status: 503, body}, 'fleet');
    assert.equal(cause, 'not yet');
    assert.equal(next.length, 500);
    assert.equal(lasting, false);
});

const NEVER = new AbortController().signal;

test('a request sends the ETag of the data, and understands that nothing changed', async () => {
    const server = serve(() => json(null, 304));
    assert.deepEqual(await ask(askFleet(), '"7"', NEVER), {kind: 'same'});
    assert.equal(server.requests[0]?.headers['If-None-Match'], '"7"');
    assert.equal(server.requests[0]?.url, 'https://argocd.example/extensions/argocd-agent-fleet/api/v1/fleet');
});

test('an answer has its ETag', async () => {
    serve(() => json(fleetJson([]), 200, {ETag: '"8"'}));
    const answer = await ask(askFleet(), null, NEVER);
    assert.equal(answer.kind === 'fresh' && answer.etag, '"8"');
});

test('pages of argocd-server and of proxies are no data', async () => {
    serve(() => new Response('<!DOCTYPE html>', {status: 200}));
    const answer = await ask(askFleet(), null, NEVER);
    assert.match(answer.kind === 'failed' ? answer.failure.next : '', /hub setup/);
    serve(() => json({other: 1}));
    const other = await ask(askFleet(), null, NEVER);
    assert.match(other.kind === 'failed' ? other.failure.cause : '', /does not understand/);
});

test('a request without an answer fails with a next step', async () => {
    serve(() => {
        throw new TypeError('network');
    });
    const answer = await ask(askFleet(), null, NEVER);
    assert.match(answer.kind === 'failed' ? answer.failure.cause : '', /cannot be reached/);
});

test('a name that is no part of an address is not asked for', async () => {
    const server = serve(() => json({}));
    assert.equal((await ask(askCluster('..'), null, NEVER)).kind, 'failed');
    assert.equal(server.requests.length, 0);
});

test('a request that argocd-server refuses is explained by the Application', () => {
    const refusal = refused({status: 401, body: 'Unauthorized extension request'}, 'application');
    const at = (destination: object, conditions?: unknown) =>
        explained(refusal, {
            metadata: {name: 'shop'},
            spec: {project: 'web', destination},
            status: {conditions: conditions as []},
        });
    const unknown = at({name: 'nowhere'});
    assert.match(unknown.cause, /^"nowhere" is no cluster.*project web does not permit.*policies/);
    assert.match(unknown.next, /spec\.destination\.name.*AppProject argocd\/web.*`invoke`/);
    assert.match(at({server: 'https://x'}).cause, /^"https:\/\/x"/);
    const conditions = [
        {type: 'SyncError', message: 'of Argo CD'},
        {type: 'ArgoCDAgentNotDelivered', message: 'project "web" refuses'},
        {type: 'ArgoCDAgentOther', message: 'and more'},
        {type: 7, message: {}},
        null,
    ];
    const known = at({name: 'paris'}, conditions);
    assert.equal(known.cause, 'project "web" refuses; also: and more');
    assert.deepEqual([known.blocked, unknown.blocked], [true, undefined]);
    assert.match(known.next, /AppProject argocd\/web/);
    for (const none of ['x', {}, [{type: 'ArgoCDAgentOther', message: 1}]]) {
        assert.match(at({}, none).cause, /^"" is no cluster/);
    }
    assert.equal(at({}, [{type: 'ArgoCDAgentX', message: 'm'.repeat(9_999)}]).cause.length, 1_000);
    const other = refused({status: 503, body: ''}, 'application');
    assert.equal(explained(other, {metadata: {name: 'shop'}}), other);
});
