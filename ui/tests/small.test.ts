import './setup';
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {path} from '../src/api/decode';
import type {Delivery, Path} from '../src/api/types';
import {bars, ceiling, line} from '../src/cluster/chart';
import {moodOf} from '../src/cluster/parts';
import {timed} from '../src/delivery/steps';
import {summary} from '../src/panel/summary';
import css from '../src/style/style.css';
import {NOW, deliveryJson, pathJson} from './samples';

const SIZE = {width: 600, height: 100};
const minutes = (...values: number[]) => values.map((value, index) => ({at: NOW - (values.length - 1 - index) * 60_000, value}));

function decoded(fields: Record<string, unknown> = {}): Path {
    const result = path(pathJson(fields));
    assert.ok(result);
    return result;
}

function delivery(fields: Record<string, unknown> = {}): Delivery {
    const [first] = decoded({timeline: [deliveryJson(fields)]}).timeline;
    assert.ok(first);
    return first;
}

test('the top of a chart is round and above all values', () => {
    assert.deepEqual([[], [0.5], [3], [17], [51], [5000], [7001]].map(it => ceiling(minutes(...it))), [1, 1, 5, 20, 100, 5000, 10000]);
});

test('a line of a chart is broken where minutes are missing', () => {
    const points = [{at: NOW - 600_000, value: 10}, {at: NOW - 60_000, value: 5}, {at: NOW, value: 0}];
    assert.equal(line(points, NOW, 10, SIZE), 'M500 0M590 50L600 100');
    assert.equal(line([], NOW, 10, SIZE), '');
});

test('bars stay inside of the chart', () => {
    const all = bars([{at: NOW - 7_200_000, value: 50}, ...minutes(0, 5)], NOW, 10, SIZE);
    assert.deepEqual(all, [
        {x: 0, y: 0, width: 8, height: 100},
        {x: 590, y: 50, width: 8, height: 50},
    ]);
});

test('a condition is good or bad by its type, and a roll-out waits', () => {
    const moods = (type: string) => ['True', 'False', 'Unknown'].map(status => moodOf({type, status}));
    assert.deepEqual(moods('Available'), ['good', 'bad', 'unclear']);
    assert.deepEqual(moods('Degraded'), ['bad', 'good', 'unclear']);
    assert.deepEqual(moods('Progressing'), ['waiting', 'good', 'unclear']);
});

test('each step of a delivery has its latency', () => {
    const {steps, total, open} = timed(delivery());
    assert.deepEqual(steps.map(it => it.took), [12, 40, 1200]);
    assert.equal(total, 1252);
    assert.equal(open, null);
    assert.ok(Math.abs(steps.reduce((sum, it) => sum + it.share, 0) - 1) < 1e-9);
});

test('a delivery on its way names the step that it waits for', () => {
    assert.equal(timed(delivery({reported: null})).open, 'reported');
    assert.equal(timed(delivery({sent: null, acknowledged: null, reported: null})).open, 'sent');
    const skipped = timed(delivery({sent: null, reported: null}));
    assert.equal(skipped.open, 'reported');
    assert.deepEqual(skipped.steps.map(it => it.took), [null, 52, null]);
});

test('clocks that jump give no negative latency', () => {
    assert.equal(timed(delivery({sent: '2026-11-22T11:58:00Z', acknowledged: null, reported: null})).total, 0);
});

test('the status panel shows the connection, the last delivery and the cause', () => {
    assert.deepEqual(summary(decoded(), NOW), {
        mood: 'bad',
        agent: 'not connected',
        delivery: '58s ago, took 1.2 s',
        lag: null,
        cause: 'cluster: its agent is not connected',
    });
});

test('the status panel of a blocked Application is not that of a connected agent', () => {
    const hop = {hop: 'name', state: 'bad', text: 'is taken', next: null, at: null};
    const connection = {state: 'yes', since: null};
    const blocked = summary(decoded({verdict: 'bad', hops: [hop], connection}), NOW);
    assert.deepEqual([blocked?.mood, blocked?.agent], ['bad', 'connected, blocked']);
    const failed = summary(decoded({verdict: 'bad', hops: [{...hop, hop: 'sync'}], connection}), NOW);
    assert.equal(failed?.agent, 'connected, failed');
    const fine = summary(decoded({verdict: 'good', hops: [], connection}), NOW);
    assert.deepEqual([fine?.mood, fine?.agent], ['good', 'connected']);
});

test('the status panel shows how long a change waits', () => {
    const waiting = summary(decoded({timeline: [deliveryJson({reported: null})]}), NOW);
    assert.equal(waiting?.delivery, '59s ago, not yet reported');
    assert.equal(waiting?.lag, '60s');
    assert.equal(summary(decoded({timeline: []}), NOW)?.delivery, 'none yet');
});

test('the status panel shows nothing of an Application that stays on the hub', () => {
    assert.equal(summary(decoded({cluster: null, verdict: 'good', connection: null}), NOW), null);
    assert.notEqual(summary(decoded({cluster: null, verdict: 'bad', connection: null}), NOW), null);
});

/** Relative luminance as WCAG defines it. */
function luminance(colour: string): number {
    const [r, g, b] = [1, 3, 5].map(at => {
        const part = parseInt(colour.slice(at, at + 2), 16) / 255;
        return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * (r ?? 0) + 0.7152 * (g ?? 0) + 0.0722 * (b ?? 0);
}

function contrast(a: string, b: string): number {
    const [light = 0, dark = 0] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (light + 0.05) / (dark + 0.05);
}

/** The colours of a theme, in six digits. */
function colours(rule: string): Map<string, string> {
    const body = css.slice(css.indexOf(rule) + rule.length).split('}')[0] ?? '';
    const all = [...body.matchAll(/--acda-([a-z-]+):\s*#([0-9a-f]+)/g)];
    return new Map(all.map(([, name = '', hex = '']) => [name, `#${hex.length === 3 ? hex.replace(/./g, '$&$&') : hex}`]));
}

test('texts of both themes have a contrast of 4.5 at least', () => {
    for (const rule of ['.acda{', '.theme-dark .acda{']) {
        const theme = colours(rule);
        const colour = (name: string) => {
            const found = theme.get(name);
            assert.ok(found, `${rule} ${name}`);
            return found;
        };
        for (const back of ['back', 'raised']) {
            for (const name of ['text', 'muted', 'link', 'good', 'unclear', 'waiting', 'bad']) {
                const found = contrast(colour(name), colour(back));
                assert.ok(found >= 4.5, `${rule} ${name} on ${back}: ${found}`);
            }
        }
        for (const fill of ['good', 'unclear', 'waiting', 'bad']) {
            assert.ok(contrast(colour('on-fill'), colour(fill)) >= 4.5, `${rule} letter on ${fill}`);
        }
    }
});

test('rules reach only our own elements', () => {
    const selectors = css.replace(/@media[^{]*\{/g, '').split('}').map(it => it.split('{')[0] ?? '');
    const foreign = selectors.flatMap(it => it.split(',')).filter(it => it.trim() !== '' && !it.includes('.acda'));
    assert.deepEqual(foreign, []);
});
