/** From the clusters to the rows of the table: judge, filter, sort. Pure. */

import type {Cluster} from '../api/types';
import {judge, rank} from './judge';
import type {State} from './judge';
import {selector} from './selector';
import type {Sort, View} from './view';

export interface Row {
    cluster: Cluster;
    state: State;
    /** All that the text filter looks at, in lower case. */
    haystack: string;
}

/** Characters of a message that the text filter looks at. */
const LONGEST_MESSAGE = 500;

export function rows(clusters: readonly Cluster[]): Row[] {
    return clusters.map(cluster => {
        const {name, mode, version, clusterSet, lastError} = cluster;
        const message = lastError?.message.slice(0, LONGEST_MESSAGE);
        const haystack = [name, mode, version, clusterSet, lastError?.reason, message].filter(Boolean).join('\n');
        return {cluster, state: judge(cluster), haystack: haystack.toLowerCase()};
    });
}

export interface Filtered {
    rows: Row[];
    /** Why the label selector has no effect. */
    error: string | null;
}

/** A cluster without a ClusterSet or version has this one. */
export const NONE = '-';

/** Rows that fit all filters. All words of the text have to be there. */
export function filter(all: readonly Row[], view: View): Filtered {
    const words = view.text.toLowerCase().split(/\s+/).filter(Boolean);
    const labels = selector(view.labels);
    const fits = ({cluster, state, haystack}: Row) =>
        words.every(word => haystack.includes(word)) &&
        (view.clusterSet === '' || (cluster.clusterSet ?? NONE) === view.clusterSet) &&
        (view.version === '' || (cluster.version ?? NONE) === view.version) &&
        (view.states.length === 0 || view.states.includes(state)) &&
        (labels.matches === null || labels.matches(cluster.labels));
    return {rows: all.filter(fits), error: labels.error};
}

const NAMES = new Intl.Collator('en', {numeric: true});

type Order = (a: Row, b: Row) => number;

/** The smaller time first; no time last. */
function earliest(a: number | null, b: number | null): number {
    return (a ?? Infinity) === (b ?? Infinity) ? 0 : (a ?? Infinity) - (b ?? Infinity);
}

function byLag(a: Row, b: Row): number {
    const [x, y] = [a.cluster.applications, b.cluster.applications];
    return earliest(x.behindSince, y.behindSince) || y.behind - x.behind;
}

const byName: Order = (a, b) => NAMES.compare(a.cluster.name, b.cluster.name);

const ORDERS: Record<Sort, Order> = {
    urgency: (a, b) =>
        rank(a.state) - rank(b.state) ||
        byLag(a, b) ||
        b.cluster.applications.troubled - a.cluster.applications.troubled,
    name: byName,
    version: (a, b) => NAMES.compare(a.cluster.version ?? '', b.cluster.version ?? ''),
    applications: (a, b) => b.cluster.applications.total - a.cluster.applications.total,
    lag: byLag,
    certificate: (a, b) => earliest(a.cluster.certificateExpires, b.cluster.certificateExpires),
};

/** Sorted rows; equal ones by name. */
export function sort(all: readonly Row[], by: Sort, descending: boolean): Row[] {
    const order = ORDERS[by];
    const sign = descending ? -1 : 1;
    return [...all].sort((a, b) => sign * order(a, b) || byName(a, b));
}

/**
 * The order that a user sees while pointer or focus is in the table: known rows keep their places, new ones come last.
 * `order` has the names as they were.
 */
export function keepOrder(sorted: readonly Row[], order: readonly string[]): Row[] {
    const byCluster = new Map(sorted.map(row => [row.cluster.name, row]));
    const kept = order.flatMap(name => byCluster.get(name) ?? []);
    const known = new Set(order);
    return [...kept, ...sorted.filter(row => !known.has(row.cluster.name))];
}

/** Values of a field with the number of clusters, for a choice. */
export function choices(all: readonly Row[], value: (cluster: Cluster) => string | null): [string, number][] {
    const counts = new Map<string, number>();
    for (const {cluster} of all) {
        const name = value(cluster) ?? NONE;
        counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    return [...counts].sort(([a], [b]) => NAMES.compare(a, b));
}
