import {click, fireTimers, json, press, render, serve, settled, type, until, visit} from './setup';
import type {Rendered, Server} from './setup';
import assert from 'node:assert/strict';
import {afterEach, beforeEach, test} from 'node:test';
import {registered} from './registered';
import '../src/extension';
import {React} from '../src/react';
import type {Application} from '../src/argocd';
import {forgetAll} from '../src/poll/poller';
import {ERROR, clusterJson, detailsJson, deliveryJson, fleetJson, pathJson} from './samples';

const APPLICATION: Application = {metadata: {name: 'shop', namespace: 'argocd'}, spec: {project: 'web'}};
const HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>';

let server: Server;
let page: Rendered | null = null;

beforeEach(() => {
    forgetAll();
    visit('/fleet');
    server = serve(() => json({}, 404));
});

afterEach(() => {
    page?.unmount();
    page = null;
});

/** Draws one page and waits for a text in it. */
async function open(element: React.ReactElement, text: string): Promise<HTMLElement> {
    page = render(element);
    const {container} = page;
    await until(() => container.textContent?.includes(text), `"${text}" in the page`);
    return container;
}

const all = (container: Element, selector: string) => [...container.querySelectorAll<HTMLElement>(selector)];
const one = (container: Element, selector: string) => {
    const [found] = all(container, selector);
    assert.ok(found, selector);
    return found;
};
const names = (container: Element) => all(container, '.acda-row-link').map(it => it.textContent);
const button = (container: Element, text: string) => all(container, 'button').find(it => it.textContent?.includes(text));

const MANY = Array.from({length: 5000}, (_, index) => clusterJson(`cluster-${index}`, index === 4999 ? {lastError: ERROR, degraded: true} : {}));

test('the pages register at Argo CD', () => {
    assert.deepEqual(registered.calls, [
        'panel Agent argocd-agent',
        'view Delivery fa-route',
        'system Fleet /fleet fa-satellite-dish',
    ]);
    assert.equal(registered.Flyout, registered.Delivery);
});

test('the fleet page draws some of 5000 clusters, errors first', async () => {
    server.answer = () => json(fleetJson(MANY));
    const container = await open(<registered.Fleet />, 'cluster-4999');
    assert.equal(names(container)[0], 'cluster-4999');
    assert.ok(names(container).length < 60, `${names(container).length} rows`);
    assert.ok(all(container, '.acda-tile').length < 1500);
    const table = one(container, '[role=table]');
    assert.equal(table.getAttribute('aria-rowcount'), '5001');
    assert.equal(one(container, '.acda-body-row').getAttribute('aria-rowindex'), '2');
    assert.equal(one(container, '.acda-clusters .acda-space').style.height, '180000px');
});

test('the chosen order is in the header, and a click changes it', async () => {
    server.answer = () => json(fleetJson([clusterJson('a'), clusterJson('b', {lastError: ERROR})]));
    const container = await open(<registered.Fleet />, 'ObjectsRefused');
    const header = (title: string) => all(container, '[role=columnheader]').find(it => it.textContent?.startsWith(title));
    assert.equal(header('State')?.getAttribute('aria-sort'), 'ascending');
    assert.equal(header('Cluster')?.getAttribute('aria-sort'), 'none');
    assert.equal(header('Mode')?.getAttribute('aria-sort'), null);
    assert.deepEqual(names(container), ['b', 'a']);
    click(header('Cluster')?.querySelector('button'));
    await until(() => names(container)[0] === 'a');
    assert.equal(header('Cluster')?.getAttribute('aria-sort'), 'ascending');
    assert.equal(window.location.search, '?sort=name');
});

test('filters narrow the table and go into the address', async () => {
    server.answer = () => json(fleetJson([clusterJson('paris'), clusterJson('berlin', {labels: {env: 'test'}})]));
    const container = await open(<registered.Fleet />, 'paris');
    const [text, labels] = all(container, 'input');
    type(text ?? null, 'ber');
    await until(() => names(container).length === 1);
    assert.deepEqual(names(container), ['berlin']);
    assert.equal(window.location.search, '?q=ber');
    type(labels ?? null, 'env=');
    await until(() => names(container).length === 0);
    assert.match(container.textContent ?? '', /No cluster fits the filters/);
    type(labels ?? null, 'env=x=y');
    await until(() => container.querySelector('[role=alert]'));
    assert.equal(labels?.getAttribute('aria-invalid'), 'true');
    click(button(container, 'clear filters'));
    await until(() => names(container).length === 2);
    click(button(container, 'well'));
    await until(() => button(container, 'well')?.getAttribute('aria-pressed') === 'true');
    assert.equal(window.location.search, '?state=well');
});

test('arrow keys move through rows, and only one row is a stop of the Tab key', async () => {
    server.answer = () => json(fleetJson(MANY));
    const container = await open(<registered.Fleet />, 'cluster-4999');
    const stops = () => all(container, '.acda-row-link[tabindex="0"]').map(it => it.textContent);
    assert.deepEqual(stops(), ['cluster-4999']);
    one(container, '.acda-row-link').focus();
    press(document.activeElement as Element, 'ArrowDown');
    await until(() => document.activeElement?.textContent === 'cluster-0');
    assert.deepEqual(stops(), ['cluster-0']);
    press(document.activeElement as Element, 'End');
    await until(() => document.activeElement?.textContent === 'cluster-4998');
});

test('new data keep order, focus and scrolling while the table is in use', async () => {
    let clusters = [clusterJson('a'), clusterJson('b')];
    server.answer = () => json(fleetJson(clusters));
    const container = await open(<registered.Fleet />, '2 clusters; hub program');
    const link = all(container, '.acda-row-link')[1];
    link?.focus();
    one(container, '.acda-clusters').scrollTop = 7;
    clusters = [clusterJson('a'), clusterJson('b', {lastError: ERROR, degraded: true}), clusterJson('c')];
    fireTimers();
    await until(() => names(container).length === 3);
    assert.deepEqual(names(container), ['a', 'b', 'c']);
    assert.equal(document.activeElement, link, 'the same element has the focus');
    assert.equal(one(container, '.acda-clusters').scrollTop, 7);
});

test('squares have a letter and a name, not only a colour', async () => {
    server.answer = () => json(fleetJson([clusterJson('a', {lastError: ERROR}), clusterJson('b')]));
    const container = await open(<registered.Fleet />, 'ObjectsRefused');
    const [bad, good] = all(container, '.acda-tile');
    assert.equal(bad?.getAttribute('aria-label'), 'a: error, ObjectsRefused');
    assert.equal(bad?.textContent, 'E');
    assert.equal(good?.getAttribute('aria-label'), 'b: well');
    assert.equal(one(container, '[role=grid]').getAttribute('aria-rowcount'), '1');
});

test('a cluster opens in the page, and back keeps the filters and the row', async () => {
    server.answer = ({url}) => json(url.endsWith('/fleet') ? fleetJson([clusterJson('berlin'), clusterJson('paris')]) : detailsJson());
    visit('/fleet?q=ber');
    const container = await open(<registered.Fleet />, 'berlin');
    const link = one(container, '.acda-row-link');
    assert.equal(link.getAttribute('href'), '/fleet?q=ber&cluster=berlin');
    click(link);
    await until(() => container.textContent?.includes('a Pod fails'));
    assert.equal(window.location.search, '?q=ber&cluster=berlin');
    assert.equal(document.activeElement?.textContent, 'Cluster berlin');
    click(all(container, 'nav a')[0]);
    await until(() => names(container).length === 1);
    assert.equal(window.location.search, '?q=ber');
    assert.equal(document.activeElement?.textContent, 'berlin');
});

test('the page of a cluster shows conditions, certificate, counts, troubles and charts', async () => {
    server.answer = () => json(detailsJson());
    visit('/fleet?cluster=berlin');
    const container = await open(<registered.Fleet />, 'a Pod fails');
    const text = container.textContent ?? '';
    for (const expected of ['ObjectsRefused', 'a certificate', '2 Synced', 'env=prod', 'global', 'AgentConnected']) {
        assert.ok(text.includes(expected), expected);
    }
    const labels = all(container, 'svg[role=img]').map(it => it.getAttribute('aria-label'));
    assert.deepEqual(labels, [
        'Lag over the last hour: now 0s, at most 4s',
        'Reports a minute over the last hour: now 7, at most 12',
        'Sessions begun over the last hour: now 1, at most 1',
    ]);
    assert.equal(one(container, 'tbody a').getAttribute('href'), '/applications/argocd/shop');
    assert.equal(server.requests[0]?.headers['Argocd-Application-Name'], 'argocd:argocd-agent-fleet');
});

test('the tab shows the way, the next step, the writers and the last changes', async () => {
    server.answer = () => json(pathJson());
    const container = await open(<registered.Delivery application={APPLICATION} />, 'The agent is not connected');
    const stations = all(container, '.acda-station button').map(it => it.textContent);
    assert.match(stations[0] ?? '', /^routing: good/);
    assert.match(stations[1] ?? '', /^cluster: waiting/);
    const text = container.textContent ?? '';
    for (const expected of ['its agent is not connected', 'argocd-agentctl status berlin -o wide', 'kubectl', 'spec, metadata']) {
        assert.ok(text.includes(expected), expected);
    }
    for (const latency of ['+12 ms', '+40 ms', '+1.2 s', '4bf92f3577b34da6a3ce929d0e0e4736']) {
        assert.ok(text.includes(latency), latency);
    }
    click(all(container, '.acda-station button')[1]);
    assert.match(document.activeElement?.textContent ?? '', /^clusterwaiting/);
    assert.equal(server.requests[0]?.headers['Argocd-Project-Name'], 'web');
});

test('the tab names the step that blocks an Application, and the panel does so too', async () => {
    const hops = [{hop: 'name', state: 'bad', text: 'is taken', next: null, at: null}];
    const connection = {state: 'yes', since: null};
    server.answer = () => json(pathJson({verdict: 'bad', hops, connection}));
    await open(<registered.Delivery application={APPLICATION} />, 'Blocked at the step name');
    await open(<registered.Panel application={APPLICATION} />, 'connected, blocked');
});

test('a refused Application with a condition of the add-on is blocked', async () => {
    server.answer = () => new Response('Unauthorized extension request', {status: 401});
    const conditions = [{type: 'ArgoCDAgentNotAdmitted', message: 'the project refuses'}];
    await open(<registered.Panel application={{...APPLICATION, status: {conditions}}} />, 'blockedthe project refuses');
});

test('the page of a disconnected cluster does not call its Applications healthy', async () => {
    const cluster = clusterJson('berlin', {connected: {state: 'no', since: null}});
    server.answer = () => json(detailsJson({cluster, troubles: []}));
    visit('/fleet?cluster=berlin');
    const container = await open(<registered.Fleet />, 'changes wait, and states of Applications are those from before');
    assert.ok(!container.textContent?.includes('No Application of this cluster needs attention'));
});

test('a command is copied, and the outcome is announced', async () => {
    let copied = '';
    const clipboard = {writeText: async (text: string) => void (copied = text)};
    Object.defineProperty(navigator, 'clipboard', {value: clipboard, configurable: true});
    server.answer = () => json(pathJson());
    const container = await open(<registered.Delivery application={APPLICATION} />, 'The agent is not connected');
    click(one(container, '[aria-label="copy the command"]'));
    await until(() => all(container, '[role=status]').some(it => it.textContent === 'copied'));
    assert.equal(copied, 'argocd-agentctl status berlin -o wide');
});

test('panel and tab share one request', async () => {
    server.answer = () => json(pathJson());
    const both = (
        <div>
            <registered.Panel application={APPLICATION} />
            <registered.Delivery application={APPLICATION} />
        </div>
    );
    const container = await open(both, 'Last delivery: ');
    await settled();
    assert.equal(server.requests.length, 1);
    assert.match(one(container, '.acda-panel').textContent ?? '', /not connected.*cluster: its agent is not connected/);
});

test('the status panel opens the delivery where Argo CD offers it', async () => {
    server.answer = () => json(pathJson({timeline: [deliveryJson({reported: null, isOperation: true})]}));
    let opened = 0;
    const container = await open(<registered.Panel application={APPLICATION} openFlyout={() => (opened += 1)} />, 'Lag: ');
    click(one(container, '[aria-label="Details of the delivery"]'));
    assert.equal(opened, 1);
});

test('Applications that stay on the hub have no panel and no tab', async () => {
    const local = {...APPLICATION, spec: {destination: {server: 'https://kubernetes.default.svc'}}};
    assert.equal(registered.mayDisplay(local), false);
    assert.equal(registered.mayDisplay(APPLICATION), true);
    server.answer = () => json(pathJson({cluster: null, verdict: 'good', hops: [], connection: null, timeline: []}));
    page = render(<registered.Panel application={APPLICATION} />);
    await settled();
    assert.equal(page.container.textContent, '');
    assert.equal(registered.mayDisplay(APPLICATION), false);
});

test('old data stay with their age, the cause and the next step', async () => {
    server.answer = () => json(fleetJson([clusterJson('paris')]));
    const container = await open(<registered.Fleet />, 'paris');
    server.answer = () => new Response('Unauthorized extension request', {status: 401});
    fireTimers();
    await until(() => container.querySelector('.acda-banner'));
    const text = one(container, '.acda-banner').textContent ?? '';
    assert.match(text, /Last updated \d+s ago: Argo CD's policies.*`get` on the Application argocd-agent-fleet/);
    assert.deepEqual(names(container), ['paris']);
    server.answer = () => json(fleetJson([clusterJson('rome')]));
    click(button(container, 'try now'));
    await until(() => names(container)[0] === 'rome');
    assert.equal(container.querySelector('.acda-banner'), null);
});

test('without any data the page shows cause and next step', async () => {
    server.answer = () => json({error: 'the hub program has not read the fleet', next: 'wait some seconds'}, 503);
    const container = await open(<registered.Fleet />, 'No data');
    assert.match(container.textContent ?? '', /has not read the fleet\. Next step: wait some seconds/);
});

test('an empty fleet shows how to begin', async () => {
    server.answer = () => json(fleetJson([]));
    const container = await open(<registered.Fleet />, 'To opt in');
    assert.equal(container.querySelector('[role=table]'), null);
});

test('markup in names, labels and messages is text', async () => {
    const bad = {lastError: {...ERROR, reason: HOSTILE, message: HOSTILE}, labels: {[HOSTILE]: HOSTILE}, version: HOSTILE, clusterSet: HOSTILE};
    const cluster = clusterJson(HOSTILE, bad);
    const trouble = {namespace: HOSTILE, name: HOSTILE, reason: HOSTILE, cause: HOSTILE};
    const condition = {type: HOSTILE, status: HOSTILE, reason: HOSTILE, message: HOSTILE};
    const details = detailsJson({cluster, troubles: [trouble], conditions: [condition], certificate: {description: HOSTILE, expires: null}});
    const hop = {hop: HOSTILE, state: 'bad', at: null, what: HOSTILE, next: HOSTILE};
    const writers = [{manager: HOSTILE, at: null, wrote: [HOSTILE]}];
    const path = pathJson({cluster: HOSTILE, hops: [hop], writers, doubts: [HOSTILE], verdict: 'bad', next: HOSTILE, timeline: [deliveryJson({version: HOSTILE, trace: HOSTILE})]});
    server.answer = ({url}) => json(url.endsWith('/fleet') ? fleetJson([cluster]) : url.endsWith('/path') ? path : details);
    const pages: [string, React.ReactElement][] = [
        ['/fleet', <registered.Fleet />],
        [`/fleet?cluster=${encodeURIComponent(HOSTILE)}`, <registered.Fleet />],
        ['/fleet', <registered.Delivery application={APPLICATION} />],
        ['/fleet', <registered.Panel application={APPLICATION} />],
    ];
    for (const [address, element] of pages) {
        visit(address);
        const container = await open(element, 'onerror=');
        assert.equal(container.querySelector('img, script'), null);
        const links = all(container, 'a').map(it => it.getAttribute('href') ?? '');
        assert.ok(links.every(it => it.startsWith('/')), links.join(' '));
        page?.unmount();
    }
    page = null;
    assert.equal((window as unknown as {hacked?: number}).hacked, undefined);
});

test('a long message is cut, and shown on demand', async () => {
    const message = 'x'.repeat(4000);
    server.answer = () => json(detailsJson({cluster: clusterJson('a', {lastError: {...ERROR, message}})}));
    visit('/fleet?cluster=a');
    const container = await open(<registered.Fleet />, 'show all');
    assert.equal(container.textContent?.includes(message), false);
    assert.equal(button(container, 'show all')?.getAttribute('aria-expanded'), 'false');
    click(button(container, 'show all'));
    await until(() => container.textContent?.includes(message));
});

test('a failure of a page does not reach Argo CD', async () => {
    const broken = {metadata: null} as unknown as Application;
    const error = console.error;
    console.error = () => undefined;
    try {
        const container = await open(<registered.Delivery application={broken} />, 'failed');
        assert.equal(one(container, '[role=alert]').textContent?.includes('reload the page'), true);
    } finally {
        console.error = error;
    }
});
