import './setup';
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {judge, summary} from '../src/fleet/judge';
import {choices, filter, keepOrder, rows, sort} from '../src/fleet/rows';
import {selector} from '../src/fleet/selector';
import {DEFAULT, isFiltered, readView, writeView} from '../src/fleet/view';
import type {View} from '../src/fleet/view';
import {drawn, moved, scrolled, visible} from '../src/fleet/window';
import {ERROR, clusterJson, clusters, tallyJson} from './samples';

const FLEET = rows(
    clusters(
        clusterJson('well-2', {version: '0.2.0'}),
        clusterJson('well-10', {labels: {env: 'test', zone: ''}, clusterSet: null}),
        clusterJson('refusing', {lastError: ERROR, degraded: true}),
        clusterJson('slow', {applications: tallyJson({behind: 1, behindSince: '2026-11-22T11:59:00Z'})}),
        clusterJson('slower', {applications: tallyJson({behind: 1, behindSince: '2026-11-22T11:00:00Z'})}),
        clusterJson('gone', {connected: {state: 'no', since: null}, degraded: true}),
        clusterJson('new', {connected: {state: 'not-yet', since: null}, lastError: {...ERROR, condition: 'Available', reason: 'AgentNeverConnected'}, degraded: true}),
    ),
);

const names = (all: {cluster: {name: string}}[]) => all.map(it => it.cluster.name);
const fitting = (part: Partial<View>) => names(filter(FLEET, {...DEFAULT, ...part}).rows);

test('a cluster has one state', () => {
    const cases: [Record<string, unknown>, string][] = [
        [{}, 'well'],
        [{connected: {state: 'unknown', since: null}}, 'disconnected'],
        [{connected: {state: 'leaving', since: null}, degraded: true}, 'leaving'],
        [{connected: {state: 'not-yet', since: null}, lastError: ERROR}, 'error'],
        [{applications: tallyJson({troubled: 1})}, 'error'],
        [{applications: tallyJson({health: {Missing: 1}})}, 'error'],
        [{applications: tallyJson({health: {Progressing: 1}})}, 'well'],
        [{applications: tallyJson({behind: 1}), degraded: true}, 'behind'],
    ];
    for (const [fields, expected] of cases) {
        const [cluster] = clusters(clusterJson('a', fields));
        assert.equal(cluster && judge(cluster), expected, JSON.stringify(fields));
    }
});

test('errors and lag come first by default', () => {
    const sorted = names(sort(FLEET, 'urgency', false));
    assert.deepEqual(sorted, ['gone', 'refusing', 'slower', 'slow', 'new', 'well-2', 'well-10']);
});

test('numbers in names are sorted as numbers, and a descending order is the reverse', () => {
    assert.deepEqual(names(sort(FLEET, 'name', false)).slice(-2), ['well-2', 'well-10']);
    assert.equal(names(sort(FLEET, 'name', true))[0], 'well-10');
    assert.equal(names(sort(FLEET, 'lag', false))[0], 'slower');
    assert.equal(names(sort(FLEET, 'version', true))[0], 'well-2');
});

test('filters narrow together', () => {
    assert.deepEqual(fitting({text: 'well'}), ['well-2', 'well-10']);
    assert.deepEqual(fitting({text: 'objectsrefused REFUSES'}), ['refusing']);
    assert.deepEqual(fitting({labels: 'env!=prod'}), ['well-10']);
    assert.deepEqual(fitting({clusterSet: '-'}), ['well-10']);
    assert.deepEqual(fitting({version: '0.2.0'}), ['well-2']);
    assert.deepEqual(fitting({states: ['behind', 'error'], text: 'slow'}), ['slow', 'slower']);
});

test('a wrong label selector filters nothing and is reported', () => {
    const {rows: all, error} = filter(FLEET, {...DEFAULT, labels: 'a=b=c'});
    assert.equal(all.length, FLEET.length);
    assert.match(error ?? '', /"a=b=c" is no requirement/);
});

test('label selectors have the meaning of Kubernetes', () => {
    const labels = new Map([['env', 'prod'], ['team.example/name', 'web'], ['empty', '']]);
    const cases: [string, boolean][] = [
        ['', true],
        ['env=prod', true],
        ['env==prod,team.example/name=web', true],
        ['env!=prod', false],
        ['other!=x', true],
        ['env in (test, prod)', true],
        ['env in (test)', false],
        ['env notin (test)', true],
        ['other notin (x)', true],
        ['other in ()', false],
        ['env', true],
        ['!env', false],
        ['!other', true],
        ['empty=', true],
        ['constructor', false],
    ];
    for (const [text, expected] of cases) {
        assert.equal(selector(text).matches?.(labels), expected, text);
    }
    for (const wrong of ['=x', 'a=b c', 'a in b', ',', 'a'.repeat(1001)]) {
        assert.notEqual(selector(wrong).error, null, wrong);
    }
});

test('rows stay in their places while they are in use', () => {
    const sorted = sort(FLEET, 'urgency', false);
    const kept = keepOrder(sorted, ['well-10', 'removed', 'slow', 'gone']);
    assert.deepEqual(names(kept), ['well-10', 'slow', 'gone', 'refusing', 'slower', 'new', 'well-2']);
});

test('choices are counted and sorted', () => {
    assert.deepEqual(choices(FLEET, it => it.clusterSet), [['-', 1], ['global', 6]]);
    assert.deepEqual(summary(FLEET.map(it => it.state)), [['disconnected', 1], ['error', 1], ['behind', 2], ['pending', 1], ['well', 2]]);
});

test('the address has the view, and a view without choices has none', () => {
    const view: View = {...DEFAULT, cluster: 'a&b', text: 'x y', labels: 'env in (a,b)', states: ['error', 'behind'], sort: 'lag', descending: true};
    assert.deepEqual(readView(writeView(view)), view);
    assert.equal(writeView(DEFAULT), '');
    assert.equal(writeView(DEFAULT, '?q=old&other=1'), '?other=1');
    assert.equal(isFiltered(DEFAULT), false);
    assert.equal(isFiltered(view), true);
});

test('a hostile address gives a view with bounds', () => {
    const view = readView(`?q=${'x'.repeat(5000)}&state=error,none,__proto__&sort=constructor`);
    assert.equal(view.text.length, 1000);
    assert.deepEqual(view.states, ['error']);
    assert.equal(view.sort, 'urgency');
});

test('only visible lines are drawn', () => {
    const place = {lines: 5000, lineHeight: 36, scrollTop: 36_000, height: 720};
    assert.deepEqual(visible(place), {first: 994, end: 1026});
    assert.deepEqual(visible({...place, scrollTop: 0}), {first: 0, end: 26});
    assert.deepEqual(visible({...place, scrollTop: 10_000_000}), {first: 4974, end: 5000});
    assert.deepEqual(visible({...place, lines: 0}), {first: 0, end: 0});
});

test('the active line is drawn even when it is scrolled away', () => {
    const range = {first: 10, end: 13};
    assert.deepEqual(drawn(range, null), [10, 11, 12]);
    assert.deepEqual(drawn(range, 11), [10, 11, 12]);
    assert.deepEqual(drawn(range, 2), [2, 10, 11, 12]);
    assert.deepEqual(drawn(range, 99), [10, 11, 12, 99]);
});

test('keys move within the list', () => {
    const table = (index: number, key: string) => moved(index, key, 100, 1, 10);
    assert.equal(table(0, 'ArrowUp'), 0);
    assert.equal(table(0, 'ArrowDown'), 1);
    assert.equal(table(95, 'PageDown'), 99);
    assert.equal(table(50, 'Home'), 0);
    assert.equal(table(50, 'End'), 99);
    assert.equal(table(50, 'ArrowRight'), null);
    assert.equal(table(50, 'constructor'), null);
    assert.equal(moved(0, 'End', 0, 1, 10), null);
    const map = (index: number, key: string) => moved(index, key, 25, 10, 4);
    assert.equal(map(3, 'ArrowRight'), 4);
    assert.equal(map(3, 'ArrowDown'), 13);
    assert.equal(map(3, 'ArrowUp'), 3);
    assert.equal(map(18, 'ArrowDown'), 18);
});

test('a line that is not visible is scrolled to, and no other', () => {
    const place = {lines: 100, lineHeight: 36, scrollTop: 360, height: 396};
    assert.equal(scrolled(5, place, 36), 180);
    assert.equal(scrolled(12, place, 36), 360);
    assert.equal(scrolled(25, place, 36), 576);
});
