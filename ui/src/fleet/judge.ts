/** How a cluster is, in one word. Pure. */

import type {Mood} from '../parts/mood';
import type {Cluster, Connection} from '../api/types';

export type State = 'disconnected' | 'error' | 'behind' | 'pending' | 'leaving' | 'well';

export interface StateInfo {
    mood: Mood;
    /** On the map, so that colour is not the only sign. */
    letter: string;
    label: string;
}

/** The most urgent first: this is the default order of the table. */
export const STATES: Record<State, StateInfo> = {
    disconnected: {mood: 'bad', letter: 'D', label: 'disconnected'},
    error: {mood: 'bad', letter: 'E', label: 'error'},
    behind: {mood: 'waiting', letter: 'L', label: 'lagging'},
    pending: {mood: 'unclear', letter: 'N', label: 'not yet connected'},
    leaving: {mood: 'unclear', letter: 'R', label: 'being removed'},
    well: {mood: 'good', letter: '', label: 'well'},
};

export const ALL_STATES = Object.keys(STATES) as State[];

const RANK = new Map(ALL_STATES.map((state, rank) => [state, rank]));

export function rank(state: State): number {
    return RANK.get(state) ?? 0;
}

/** Health of Applications that needs a look. */
const SICK = new Set(['Degraded', 'Missing']);

export function judge(cluster: Cluster): State {
    const {connected, applications, lastError} = cluster;
    const ofAvailable = lastError === null || lastError.condition === 'Available';
    switch (connected.state) {
        case 'no':
        case 'unknown':
            return 'disconnected';
        case 'leaving':
            return 'leaving';
        case 'not-yet':
            return ofAvailable ? 'pending' : 'error';
        case 'yes':
            break;
    }
    const isSick = applications.health.some(([health]) => SICK.has(health));
    if (lastError !== null || applications.troubled > 0 || isSick) {
        return 'error';
    }
    return applications.behind > 0 || cluster.degraded ? 'behind' : 'well';
}

/** Whether nothing passes between the hub and an agent that was there. */
export function isAway(state: Connection): boolean {
    return state === 'no' || state === 'unknown';
}

const CONNECTIONS: Record<Connection, string> = {
    yes: 'connected',
    no: 'not connected',
    'not-yet': 'not yet connected',
    unknown: 'cluster lost',
    leaving: 'being removed',
};

export function connectionText(state: Connection): string {
    return CONNECTIONS[state];
}

/** How many of these Applications have this status. */
export function withStatus(counts: readonly [string, number][], status: string): number {
    return counts.find(([name]) => name === status)?.[1] ?? 0;
}

/** How many clusters are in each state, those without clusters left out. */
export function summary(states: readonly State[]): [State, number][] {
    const counts = new Map<State, number>();
    for (const state of states) {
        counts.set(state, (counts.get(state) ?? 0) + 1);
    }
    return ALL_STATES.flatMap((state): [State, number][] => {
        const number = counts.get(state);
        return number === undefined ? [] : [[state, number]];
    });
}
