/** A path in few words, for the status panel. Pure. */

import type {Connected, Delivery, Hop, Path} from '../api/types';
import {connectionText} from '../fleet/judge';
import type {Mood} from '../parts/mood';
import {timed} from '../delivery/steps';
import {decisive, stateWord} from '../delivery/words';
import {age, latency, oneLine} from '../text/format';

export interface Summary {
    mood: Mood;
    agent: string;
    delivery: string;
    /** How long the newest change has been on its way; null if none is. */
    lag: string | null;
    /** Why it is not in order; null if it is. */
    cause: string | null;
}

function agentMood(connection: Connected | null): Mood {
    switch (connection?.state) {
        case 'yes':
            return 'good';
        case 'no':
        case 'unknown':
            return 'bad';
        case 'not-yet':
            return 'waiting';
        case 'leaving':
        case undefined:
            return 'unclear';
    }
}

function agentText(connection: Connected | null): string {
    if (connection === null) {
        return 'unknown';
    }
    return connectionText(connection.state);
}

function deliveryText(newest: Delivery | undefined, hop: Hop | undefined, now: number): string {
    if (newest) {
        const {total, open} = timed(newest);
        const last = newest.reported ?? newest.acknowledged;
        if (open === null && total !== null && last !== null) {
            return `${age(last, now)} ago, took ${latency(total)}`;
        }
        if (newest.acknowledged !== null) {
            return `${age(newest.acknowledged, now)} ago, not yet reported`;
        }
        return newest.sent === null ? 'waits to be sent' : 'sent, not yet acknowledged';
    }
    return hop?.at ? `confirmed ${age(hop.at, now)} ago` : 'none yet';
}

function lagText(newest: Delivery | undefined, now: number): string | null {
    if (!newest || newest.written === null || timed(newest).open === null) {
        return null;
    }
    return age(newest.written, now);
}

/** Null for an Application that stays on the hub and is in order. */
export function summary(path: Path, now: number): Summary | null {
    if (path.cluster === null && path.verdict === 'good') {
        return null;
    }
    const newest = path.timeline[0];
    const culprit = decisive(path);
    // A connected agent is no comfort for an Application that does not get through.
    const isStuck = path.verdict === 'bad' && culprit !== undefined && path.connection?.state === 'yes';
    const agent = agentText(path.connection);
    return {
        mood: isStuck ? 'bad' : agentMood(path.connection),
        agent: isStuck ? `${agent}, ${stateWord(culprit)}` : agent,
        delivery: deliveryText(newest, path.hops.find(it => it.hop === 'delivery'), now),
        lag: lagText(newest, now),
        cause: path.verdict === 'good' || !culprit ? null : `${oneLine(culprit.hop)}: ${oneLine(culprit.text)}`,
    };
}
