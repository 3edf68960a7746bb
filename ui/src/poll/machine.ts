/**
 * When to ask, and what is known in between. Pure: each input gives the next state and at most one effect.
 *
 * Data stay when a request fails or the page is hidden; only a newer answer replaces them.
 */

import type {Answer} from '../api/request';
import type {Failure} from '../api/failure';

/** Pause between an answer and the next request. */
export const INTERVAL_MS = 5_000;

/** Longest pause after failures, without jitter. */
export const LONGEST_PAUSE_MS = 60_000;

export interface Poll<T> {
    /** `asking`: a request is open. `waiting`: a timer runs. `resting`: neither, since the page is hidden or closed. */
    phase: 'resting' | 'waiting' | 'asking';
    hidden: boolean;
    data: T | null;
    etag: string | null;
    /** When the data were last confirmed, by this machine's clock. */
    updatedAt: number | null;
    /** When these data came, by this machine's clock. */
    freshAt: number | null;
    /** When the last request ended. */
    askedAt: number | null;
    /** Failures in a row. */
    failures: number;
    failure: Failure | null;
}

export type Input<T> =
    | {kind: 'start'; hidden: boolean}
    | {kind: 'stop'}
    | {kind: 'due'}
    | {kind: 'retry'}
    | {kind: 'hidden'}
    | {kind: 'visible'; now: number}
    /** `random` is from 0 to 1. */
    | {kind: 'answer'; answer: Answer<T>; now: number; random: number};

export type Effect = {kind: 'ask'} | {kind: 'wait'; ms: number} | {kind: 'cancel'} | {kind: 'none'};

export interface Step<T> {
    poll: Poll<T>;
    effect: Effect;
}

const NONE: Effect = {kind: 'none'};

export function initial<T>(): Poll<T> {
    return {
        phase: 'resting',
        hidden: false,
        data: null,
        etag: null,
        updatedAt: null,
        freshAt: null,
        askedAt: null,
        failures: 0,
        failure: null,
    };
}

/** The pause after this many failures in a row, with up to a fifth of jitter. */
export function pause(failures: number, lasting: boolean, random: number): number {
    if (failures === 0) {
        return INTERVAL_MS;
    }
    const doubled = INTERVAL_MS * 2 ** Math.min(failures, 10);
    const base = lasting ? LONGEST_PAUSE_MS : Math.min(doubled, LONGEST_PAUSE_MS);
    return Math.round(base * (1 + random / 5));
}

function asking<T>(poll: Poll<T>): Step<T> {
    return {poll: {...poll, phase: 'asking'}, effect: {kind: 'ask'}};
}

function resting<T>(poll: Poll<T>): Poll<T> {
    return {...poll, phase: 'resting'};
}

function learn<T>(poll: Poll<T>, answer: Answer<T>, now: number): Poll<T> {
    const asked = {...poll, askedAt: now};
    switch (answer.kind) {
        case 'fresh': {
            const {data, etag} = answer;
            return {...asked, data, etag, updatedAt: now, freshAt: now, failures: 0, failure: null};
        }
        case 'same':
            return {...asked, updatedAt: now, failures: 0, failure: null};
        case 'failed':
            return {...asked, failures: poll.failures + 1, failure: answer.failure};
    }
}

/** The next state, and the effect that the caller carries out. */
export function step<T>(poll: Poll<T>, input: Input<T>): Step<T> {
    switch (input.kind) {
        case 'start': {
            const started = {...poll, hidden: input.hidden};
            return input.hidden ? {poll: resting(started), effect: NONE} : asking(started);
        }
        case 'stop':
            return {poll: resting(poll), effect: {kind: 'cancel'}};
        case 'due':
            return poll.phase === 'waiting' ? asking(poll) : {poll, effect: NONE};
        case 'retry':
            return poll.phase === 'asking' ? {poll, effect: NONE} : asking(poll);
        case 'hidden': {
            const hidden = {...poll, hidden: true};
            // An open request may end; no other follows it.
            return poll.phase === 'waiting'
                ? {poll: resting(hidden), effect: {kind: 'cancel'}}
                : {poll: hidden, effect: NONE};
        }
        case 'visible': {
            const visible = {...poll, hidden: false};
            return poll.phase === 'resting' ? resume(visible, input.now) : {poll: visible, effect: NONE};
        }
        case 'answer': {
            if (poll.phase !== 'asking') {
                return {poll, effect: NONE};
            }
            const next = learn(poll, input.answer, input.now);
            if (next.hidden) {
                return {poll: resting(next), effect: NONE};
            }
            const ms = pause(next.failures, next.failure?.lasting ?? false, input.random);
            return {poll: {...next, phase: 'waiting'}, effect: {kind: 'wait', ms}};
        }
    }
}

/** The page is seen again: asks at once, unless it did just before. */
function resume<T>(poll: Poll<T>, now: number): Step<T> {
    const rest = poll.askedAt === null ? 0 : poll.askedAt + INTERVAL_MS - now;
    if (rest <= 0 || rest > INTERVAL_MS) {
        return asking(poll);
    }
    return {poll: {...poll, phase: 'waiting'}, effect: {kind: 'wait', ms: rest}};
}

/** Smaller differences of clocks are not worth a correction: an answer takes time, too. */
const LEAST_OFFSET_MS = 30_000;

/** How far the hub's clock is ahead of this machine's. `generatedAt`: the hub's time in the data. */
export function clockOffset(generatedAt: number | null, freshAt: number | null): number {
    if (generatedAt === null || freshAt === null) {
        return 0;
    }
    const offset = generatedAt - freshAt;
    return Math.abs(offset) < LEAST_OFFSET_MS ? 0 : offset;
}
