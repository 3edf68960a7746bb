/** Answers of the hub program, and parts of them. */

import {fleet} from '../src/api/decode';
import type {Cluster} from '../src/api/types';

export const NOW = Date.parse('2026-11-22T12:00:00Z');

type Fields = Record<string, unknown>;

/** A cluster in JSON that is in order. */
export function clusterJson(name: string, fields: Fields = {}): Fields {
    return {
        name,
        mode: 'managed',
        version: '0.1.0',
        connected: {state: 'yes', since: '2026-11-19T12:00:00Z'},
        applications: tallyJson(),
        certificateExpires: '2026-12-19T12:00:00Z',
        lastError: null,
        degraded: false,
        labels: {env: 'prod'},
        clusterSet: 'global',
        ...fields,
    };
}

export function tallyJson(fields: Fields = {}): Fields {
    const good = {total: 2, sync: {Synced: 2}, health: {Healthy: 2}, troubled: 0, behind: 0, behindSince: null};
    return {...good, ...fields};
}

export const ERROR = {
    condition: 'Degraded',
    reason: 'ObjectsRefused',
    message: 'the cluster refuses 1 objects of this hub',
    since: '2026-11-22T10:00:00Z',
};

export function fleetJson(clusters: Fields[]): Fields {
    return {generatedAt: '2026-11-22T12:00:00Z', replica: 'manager-0', version: '0.1.0', clusters};
}

/** Clusters as pages have them. */
export function clusters(...all: Fields[]): Cluster[] {
    return fleet(fleetJson(all))?.clusters ?? [];
}

export function detailsJson(fields: Fields = {}): Fields {
    return {
        generatedAt: '2026-11-22T12:00:00Z',
        cluster: clusterJson('berlin', {lastError: ERROR, degraded: true}),
        conditions: [
            {type: 'Available', status: 'True', reason: 'AgentConnected', message: 'connected', lastTransitionTime: '2026-11-19T12:00:00Z'},
            {type: 'Degraded', status: 'True', reason: 'ObjectsRefused', message: 'one', lastTransitionTime: '2026-11-22T10:00:00Z'},
        ],
        certificate: {description: 'a certificate', expires: '2026-12-19T12:00:00Z'},
        troubles: [
            {namespace: 'argocd', name: 'shop', cluster: 'berlin', reason: 'Degraded', since: null, cause: 'a Pod fails', sync: 'Synced', health: 'Degraded'},
        ],
        troublesCut: false,
        history: [
            {at: '2026-11-22T11:58:00Z', lagSeconds: 4, behind: 1, reports: 12, sessions: 0, connected: true},
            {at: '2026-11-22T11:59:00Z', lagSeconds: 0, behind: 0, reports: 7, sessions: 1, connected: false},
        ],
        ...fields,
    };
}

export const NEXT = 'look at `argocd-agentctl status berlin -o wide`';

export function deliveryJson(fields: Fields = {}): Fields {
    return {
        version: '4711',
        isOperation: false,
        written: '2026-11-22T11:59:00.000Z',
        sent: '2026-11-22T11:59:00.012Z',
        acknowledged: '2026-11-22T11:59:00.052Z',
        reported: '2026-11-22T11:59:01.252Z',
        trace: null,
        ...fields,
    };
}

export function pathJson(fields: Fields = {}): Fields {
    return {
        generatedAt: '2026-11-22T12:00:00Z',
        namespace: 'argocd',
        name: 'shop',
        cluster: 'berlin',
        hops: [
            {hop: 'routing', state: 'good', at: null, what: 'goes to cluster berlin', next: null},
            {hop: 'cluster', state: 'waiting', at: '2026-11-22T11:00:00Z', what: 'its agent is not connected', next: NEXT},
        ],
        writers: [{manager: 'kubectl', at: '2026-11-22T11:59:00Z', wrote: ['spec', 'metadata']}],
        doubts: [],
        verdict: 'waiting',
        next: NEXT,
        connection: {state: 'no', since: '2026-11-22T11:00:00Z'},
        timeline: [deliveryJson({trace: '4bf92f3577b34da6a3ce929d0e0e4736'})],
        ...fields,
    };
}
