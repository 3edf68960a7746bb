/**
 * Decodes answers. Pure and lenient: a field of another form is absent, a list is cut. Only an answer without its main
 * part is refused (null).
 */

import type {
    Cluster,
    ClusterDetails,
    Condition,
    Connected,
    Connection,
    Count,
    Delivery,
    Fleet,
    Hop,
    HopState,
    Minute,
    Path,
    Problem,
    Tally,
    Trouble,
    Writer,
} from './types';

/** More clusters than this are not shown. */
export const MOST_CLUSTERS = 20_000;
const MOST_ENTRIES = 500;

type Json = Record<string, unknown>;

const CONNECTIONS: readonly Connection[] = ['yes', 'no', 'not-yet', 'unknown', 'leaving'];
const STATES: readonly HopState[] = ['good', 'unclear', 'waiting', 'bad'];

function object(value: unknown): Json | null {
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : null;
}

function text(value: unknown): string {
    return typeof value === 'string' ? value : '';
}

function textOrNull(value: unknown): string | null {
    return typeof value === 'string' && value !== '' ? value : null;
}

function number(value: unknown): number {
    return typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : 0;
}

function time(value: unknown): number | null {
    const at = typeof value === 'string' ? Date.parse(value) : NaN;
    return Number.isNaN(at) ? null : at;
}

function list<T>(value: unknown, item: (entry: Json) => T | null, most = MOST_ENTRIES): T[] {
    const found: T[] = [];
    for (const entry of Array.isArray(value) ? value : []) {
        const fields = object(entry);
        const decoded = fields && item(fields);
        if (decoded !== null) {
            found.push(decoded);
        }
        if (found.length === most) {
            break;
        }
    }
    return found;
}

function texts(value: unknown): string[] {
    const all: unknown[] = Array.isArray(value) ? value : [];
    return all.filter((it): it is string => typeof it === 'string').slice(0, MOST_ENTRIES);
}

function counts(value: unknown): Count[] {
    const entries = Object.entries(object(value) ?? {}).slice(0, MOST_ENTRIES);
    return entries.map(([name, count]): Count => [name, number(count)]).filter(([, count]) => count > 0);
}

function labels(value: unknown): ReadonlyMap<string, string> {
    const entries = Object.entries(object(value) ?? {}).slice(0, MOST_ENTRIES);
    return new Map(entries.map(([key, label]) => [key, text(label)]));
}

function connected(value: unknown): Connected {
    const fields = object(value) ?? {};
    const state = CONNECTIONS.find(it => it === fields['state']);
    return {state: state ?? 'unknown', since: time(fields['since'])};
}

function tally(value: unknown): Tally {
    const fields = object(value) ?? {};
    return {
        total: number(fields['total']),
        sync: counts(fields['sync']),
        health: counts(fields['health']),
        troubled: number(fields['troubled']),
        behind: number(fields['behind']),
        behindSince: time(fields['behindSince']),
    };
}

function problem(value: unknown): Problem | null {
    const fields = object(value);
    return (
        fields && {
            condition: text(fields['condition']),
            reason: text(fields['reason']),
            message: text(fields['message']),
            since: time(fields['since']),
        }
    );
}

function cluster(fields: Json): Cluster | null {
    const name = text(fields['name']);
    if (name === '') {
        return null;
    }
    return {
        name,
        mode: textOrNull(fields['mode']),
        version: textOrNull(fields['version']),
        connected: connected(fields['connected']),
        applications: tally(fields['applications']),
        certificateExpires: time(fields['certificateExpires']),
        lastError: problem(fields['lastError']),
        degraded: fields['degraded'] === true,
        labels: labels(fields['labels']),
        clusterSet: textOrNull(fields['clusterSet']),
    };
}

/** The fleet, each name once. */
export function fleet(value: unknown): Fleet | null {
    const fields = object(value);
    if (!fields || !Array.isArray(fields['clusters'])) {
        return null;
    }
    const clusters = list(fields['clusters'], cluster, MOST_CLUSTERS);
    const byName = new Map(clusters.map(it => [it.name, it]));
    return {
        generatedAt: time(fields['generatedAt']),
        replica: text(fields['replica']),
        version: text(fields['version']),
        clusters: [...byName.values()],
    };
}

function condition(fields: Json): Condition {
    return {
        type: text(fields['type']),
        status: text(fields['status']),
        reason: text(fields['reason']),
        message: text(fields['message']),
        lastTransitionTime: time(fields['lastTransitionTime']),
    };
}

function trouble(fields: Json): Trouble {
    return {
        namespace: text(fields['namespace']),
        name: text(fields['name']),
        reason: text(fields['reason']),
        since: time(fields['since']),
        cause: text(fields['cause']),
        sync: textOrNull(fields['sync']),
        health: textOrNull(fields['health']),
    };
}

function minute(fields: Json): Minute | null {
    const at = time(fields['at']);
    if (at === null) {
        return null;
    }
    return {
        at,
        lagSeconds: number(fields['lagSeconds']),
        behind: number(fields['behind']),
        reports: number(fields['reports']),
        sessions: number(fields['sessions']),
        connected: fields['connected'] === true,
    };
}

/** One cluster. */
export function clusterDetails(value: unknown): ClusterDetails | null {
    const fields = object(value) ?? {};
    const row = object(fields['cluster']);
    const decoded = row && cluster(row);
    if (!decoded) {
        return null;
    }
    const certificate = object(fields['certificate']);
    return {
        generatedAt: time(fields['generatedAt']),
        cluster: decoded,
        conditions: list(fields['conditions'], condition),
        certificate: certificate && {description: text(certificate['description']), expires: time(certificate['expires'])},
        troubles: list(fields['troubles'], trouble),
        troublesCut: fields['troublesCut'] === true,
        history: list(fields['history'], minute).sort((a, b) => a.at - b.at),
    };
}

function state(value: unknown): HopState {
    return STATES.find(it => it === value) ?? 'unclear';
}

function hop(fields: Json): Hop {
    return {
        hop: text(fields['hop']),
        state: state(fields['state']),
        at: time(fields['at']),
        text: text(fields['what']),
        next: textOrNull(fields['next']),
    };
}

function writer(fields: Json): Writer {
    return {manager: text(fields['manager']), at: time(fields['at']), wrote: texts(fields['wrote'])};
}

function delivery(fields: Json): Delivery {
    return {
        version: text(fields['version']),
        isOperation: fields['isOperation'] === true,
        written: time(fields['written']),
        sent: time(fields['sent']),
        acknowledged: time(fields['acknowledged']),
        reported: time(fields['reported']),
        trace: textOrNull(fields['trace']),
    };
}

/** The way of one Application. */
export function path(value: unknown): Path | null {
    const fields = object(value);
    if (!fields || !Array.isArray(fields['hops'])) {
        return null;
    }
    return {
        generatedAt: time(fields['generatedAt']),
        namespace: text(fields['namespace']),
        name: text(fields['name']),
        cluster: textOrNull(fields['cluster']),
        hops: list(fields['hops'], hop),
        writers: list(fields['writers'], writer),
        doubts: texts(fields['doubts']),
        verdict: state(fields['verdict']),
        next: textOrNull(fields['next']),
        connection: object(fields['connection']) && connected(fields['connection']),
        timeline: list(fields['timeline'], delivery, 20),
    };
}
