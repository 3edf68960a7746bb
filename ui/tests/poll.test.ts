import {fireTimers, json, serve, setHidden, settled, until} from './setup';
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {askFleet} from '../src/api/question';
import type {Answer} from '../src/api/request';
import {INTERVAL_MS, clockOffset, initial, pause, step} from '../src/poll/machine';
import type {Effect, Input, Poll} from '../src/poll/machine';
import {Poller, forgetAll, pollerOf} from '../src/poll/poller';
import {fleetJson} from './samples';

type Text = Poll<string>;

const FAILURE = {cause: 'no', next: 'wait', lasting: false};
const answered = (answer: Answer<string>, now: number): Input<string> => ({kind: 'answer', answer, now, random: 0});
const FRESH: Answer<string> = {kind: 'fresh', data: 'a', etag: '1'};

/** The state and the last effect after these inputs. */
function after(...inputs: Input<string>[]): {poll: Text; effect: Effect} {
    let result = {poll: initial<string>(), effect: {kind: 'none'} as Effect};
    for (const input of inputs) {
        result = step(result.poll, input);
    }
    return result;
}

const START: Input<string> = {kind: 'start', hidden: false};

test('polling asks at once and again after the interval', () => {
    assert.deepEqual(after(START).effect, {kind: 'ask'});
    const {poll, effect} = after(START, answered(FRESH, 100));
    assert.deepEqual(effect, {kind: 'wait', ms: INTERVAL_MS});
    assert.equal(poll.data, 'a');
    assert.deepEqual(step(poll, {kind: 'due'}).effect, {kind: 'ask'});
});

test('unchanged data stay the same object and are confirmed', () => {
    const {poll} = after(START, answered(FRESH, 100), {kind: 'due'}, answered({kind: 'same'}, 200));
    assert.equal(poll.data, 'a');
    assert.equal(poll.etag, '1');
    assert.deepEqual([poll.freshAt, poll.updatedAt], [100, 200]);
});

test('a failure keeps the data and waits longer each time', () => {
    const failed = answered({kind: 'failed', failure: FAILURE}, 200);
    const once = after(START, answered(FRESH, 100), {kind: 'due'}, failed);
    assert.equal(once.poll.data, 'a');
    assert.equal(once.poll.updatedAt, 100);
    assert.equal(once.poll.failure, FAILURE);
    assert.deepEqual(once.effect, {kind: 'wait', ms: 10_000});
    const twice = after(START, answered(FRESH, 100), {kind: 'due'}, failed, {kind: 'due'}, failed);
    assert.deepEqual(twice.effect, {kind: 'wait', ms: 20_000});
    const well = step(step(twice.poll, {kind: 'due'}).poll, answered(FRESH, 300));
    assert.equal(well.poll.failure, null);
    assert.deepEqual(well.effect, {kind: 'wait', ms: INTERVAL_MS});
});

test('pauses are bounded, and long at once if only a person can help', () => {
    assert.deepEqual([1, 2, 3, 4, 5, 1000].map(it => pause(it, false, 0)), [10_000, 20_000, 40_000, 60_000, 60_000, 60_000]);
    assert.equal(pause(1, true, 0), 60_000);
    assert.equal(pause(1, false, 1), 12_000);
});

test('a hidden page rests, and asks when it is visible again', () => {
    const hidden = after(START, answered(FRESH, 100), {kind: 'hidden'});
    assert.equal(hidden.poll.phase, 'resting');
    assert.deepEqual(hidden.effect, {kind: 'cancel'});
    assert.deepEqual(step(hidden.poll, {kind: 'due'}).effect, {kind: 'none'});
    assert.deepEqual(step(hidden.poll, {kind: 'visible', now: 100 + INTERVAL_MS}).effect, {kind: 'ask'});
    assert.deepEqual(step(hidden.poll, {kind: 'visible', now: 1_100}).effect, {kind: 'wait', ms: 4_000});
});

test('a request that is open while the page becomes hidden is the last one', () => {
    const {poll, effect} = after(START, {kind: 'hidden'}, answered(FRESH, 100));
    assert.equal(poll.data, 'a');
    assert.equal(poll.phase, 'resting');
    assert.deepEqual(effect, {kind: 'none'});
});

test('a page that opens hidden asks nothing', () => {
    assert.deepEqual(after({kind: 'start', hidden: true}).effect, {kind: 'none'});
});

test('a clock that was set back does not stop polling', () => {
    const hidden = after(START, answered(FRESH, 1_000_000), {kind: 'hidden'});
    assert.deepEqual(step(hidden.poll, {kind: 'visible', now: 0}).effect, {kind: 'ask'});
});

test('an answer after the stop is not taken', () => {
    const {poll} = after(START, {kind: 'stop'}, answered(FRESH, 100));
    assert.equal(poll.data, null);
});

test('retry asks at once, but not twice', () => {
    const waiting = after(START, answered({kind: 'failed', failure: FAILURE}, 1));
    const asked = step(waiting.poll, {kind: 'retry'});
    assert.deepEqual(asked.effect, {kind: 'ask'});
    assert.deepEqual(step(asked.poll, {kind: 'retry'}).effect, {kind: 'none'});
});

test('only a clear difference of clocks is corrected', () => {
    assert.equal(clockOffset(1_000, 4_000), 0);
    assert.equal(clockOffset(100_000, 4_000), 96_000);
    assert.equal(clockOffset(null, 4_000), 0);
});

test('a poller asks while it has listeners and the page is visible', async () => {
    const server = serve(request => json(fleetJson([]), request.headers['If-None-Match'] ? 304 : 200, {ETag: '"1"'}));
    const poller = new Poller(askFleet());
    const stop = poller.subscribe(() => undefined);
    await until(() => poller.current().data !== null);
    fireTimers();
    await until(() => server.requests.length === 2 && poller.current().phase === 'waiting');
    assert.equal(server.requests[1]?.headers['If-None-Match'], '"1"');
    setHidden(true);
    fireTimers();
    await settled();
    assert.equal(server.requests.length, 2);
    setHidden(false);
    fireTimers();
    await until(() => server.requests.length === 3);
    stop();
    await settled();
    fireTimers();
    await settled();
    assert.equal(server.requests.length, 3);
});

test('equal questions share a poller, and idle ones are forgotten at last', () => {
    forgetAll();
    const fleet = pollerOf(askFleet());
    assert.equal(pollerOf(askFleet()), fleet);
    for (let number = 0; number < 20; number += 1) {
        pollerOf({...askFleet(), key: String(number)});
    }
    assert.notEqual(pollerOf(askFleet()), fleet);
});
