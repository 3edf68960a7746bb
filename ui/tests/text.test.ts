import './setup';
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {age, clean, command, count, cut, latency, left, moment, oneLine, span} from '../src/text/format';
import {NOW} from './samples';

test('spans are printed as argocd-agentctl prints them', () => {
    const cases: [number, string][] = [
        [-1, '0s'],
        [30, '30s'],
        [119, '119s'],
        [120, '2m'],
        [3_600, '60m'],
        [7_200, '2h'],
        [86_400, '24h'],
        [172_800, '2d'],
        [864_000, '10d'],
    ];
    for (const [seconds, expected] of cases) {
        assert.equal(span(seconds * 1000), expected);
    }
    assert.equal(span(NaN), '0s');
});

test('a time in the future has no age, and one in the past has ended', () => {
    assert.equal(age(NOW + 5_000, NOW), '0s');
    assert.equal(left(NOW, NOW), 'ended');
    assert.equal(left(NOW + 8 * 86_400_000, NOW), '8d');
});

test('latencies have a unit that fits', () => {
    const cases: [number, string][] = [
        [-3, '0 ms'],
        [12.4, '12 ms'],
        [1_250, '1.2 s'],
        [59_999, '59.9 s'],
        [185_000, '3 m 5 s'],
        [3_720_000, '1 h 2 m'],
    ];
    for (const [ms, expected] of cases) {
        assert.equal(latency(ms), expected);
    }
});

test('moments are in UTC and rounded to seconds', () => {
    assert.equal(moment(NOW + 123), '2026-11-22T12:00:00Z');
    assert.equal(moment(NaN), '');
    assert.equal(count(1, 'cluster'), '1 cluster');
    assert.equal(count(0, 'cluster'), '0 clusters');
});

test('characters that deceive a reader are replaced', () => {
    assert.equal(clean('a\u202egnp.exe\u0007\u200b'), 'a\ufffdgnp.exe\ufffd\ufffd');
    assert.equal(clean('two\r\nlines\tand a tab'), 'two\nlines\tand a tab');
    assert.equal(oneLine(' two\n\n lines '), 'two lines');
});

test('a cut does not split a character', () => {
    assert.deepEqual(cut('abc', 3), {text: 'abc', isAll: true});
    assert.deepEqual(cut('abcd', 3), {text: 'abc', isAll: false});
    assert.deepEqual(cut('ab\u{1f600}', 3), {text: 'ab', isAll: false});
});

test('the command of a next step is found', () => {
    const cases: [string, string | null][] = [
        ['argocd-agentctl check', 'argocd-agentctl check'],
        ['look at `argocd-agentctl status berlin -o wide`', 'argocd-agentctl status berlin -o wide'],
        ['restore it with a new key: argocd-agentctl agent restore berlin', 'argocd-agentctl agent restore berlin'],
        ['opt it in: kubectl label managedcluster a b=managed; if another is meant, name it', 'kubectl label managedcluster a b=managed'],
        ['sync it (argocd app sync, or the UI), or give it a policy', null],
        ['change `spec.project` of the Application', null],
        ['rename one of the two', null],
    ];
    for (const [next, expected] of cases) {
        assert.equal(command(next), expected);
    }
});

test('a command has no line breaks, which a terminal would run', () => {
    assert.equal(command('run: kubectl get pods\nrm -rf x'), 'kubectl get pods rm -rf x');
});
