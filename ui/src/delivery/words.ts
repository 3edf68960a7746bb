/** Words for the way of an Application. Pure. */

import {isAway} from '../fleet/judge';
import type {Hop, HopState, Path} from '../api/types';
import {clean, cut} from '../text/format';

const STATE_WORDS: Record<HopState, string> = {
    good: 'good',
    unclear: 'unclear',
    waiting: 'waiting',
    bad: 'blocked',
};

/** The words for a state of a hop. Health and sync on the cluster are not blocked but bad. */
export function stateWord({hop, state}: Hop): string {
    return state === 'bad' && (hop === 'sync' || hop === 'health' || hop === 'argo-cd') ? 'failed' : STATE_WORDS[state];
}

/** Names of hops are ours, but cut all the same. */
export function nameOf(hop: Hop): string {
    return cut(clean(hop.hop), 40).text;
}

/** The first hop that has the verdict's state: the others follow from it. */
export function decisive(path: Path): Hop | undefined {
    return path.hops.find(it => it.state === path.verdict);
}

const VERDICTS: Record<HopState, string> = {
    good: 'Delivered, and in order',
    unclear: 'Not everything is known',
    waiting: 'On its way',
    bad: 'Blocked',
};

/** The verdict in a sentence. That of an Application that stays on the hub is about the hub. */
export function verdictText(path: Path): string {
    const {cluster, connection, verdict} = path;
    if (cluster === null && verdict === 'good') {
        return 'Stays on the hub';
    }
    const hop = decisive(path);
    if (verdict === 'bad' && hop) {
        return `${stateWord(hop).replace(/^./, it => it.toUpperCase())} at the step ${nameOf(hop)}`;
    }
    return connection !== null && isAway(connection.state)
        ? 'The agent is not connected; the states below are the last known ones'
        : VERDICTS[verdict];
}
