/** What a user has chosen to see: filters, order, cluster. It lives in the URL's query, so that a link shows the same. Pure. */

import {ALL_STATES} from './judge';
import type {State} from './judge';

export const SORTS = ['urgency', 'name', 'version', 'applications', 'lag', 'certificate'] as const;
export type Sort = (typeof SORTS)[number];

export interface View {
    /** The cluster whose page is open; empty for the table. */
    cluster: string;
    text: string;
    labels: string;
    clusterSet: string;
    version: string;
    /** No state means all. */
    states: readonly State[];
    sort: Sort;
    descending: boolean;
}

export const DEFAULT: View = {
    cluster: '',
    text: '',
    labels: '',
    clusterSet: '',
    version: '',
    states: [],
    sort: 'urgency',
    descending: false,
};

/** Longer values in a URL are cut. */
const LONGEST = 1000;

const FIELDS = {cluster: 'cluster', text: 'q', labels: 'labels', clusterSet: 'set', version: 'version'} as const;
type Field = keyof typeof FIELDS;
const NAMES = Object.entries(FIELDS) as [Field, string][];

export function readView(query: string): View {
    const parameters = new URLSearchParams(query);
    const view: View = {...DEFAULT};
    for (const [field, name] of NAMES) {
        view[field] = (parameters.get(name) ?? '').slice(0, LONGEST);
    }
    const states = (parameters.get('state') ?? '').split(',');
    view.states = ALL_STATES.filter(it => states.includes(it));
    const sort = parameters.get('sort') ?? '';
    view.sort = SORTS.find(it => it === sort.replace(/^-/, '')) ?? DEFAULT.sort;
    view.descending = sort.startsWith('-');
    return view;
}

/** The query of a view, with its question mark; empty for the default. Parameters of others stay. */
export function writeView(view: View, query = ''): string {
    const parameters = new URLSearchParams(query);
    const set = (name: string, value: string) => {
        if (value === '') {
            parameters.delete(name);
        } else {
            parameters.set(name, value);
        }
    };
    for (const [field, name] of NAMES) {
        set(name, view[field]);
    }
    set('state', view.states.join(','));
    const isDefault = view.sort === DEFAULT.sort && !view.descending;
    set('sort', isDefault ? '' : (view.descending ? '-' : '') + view.sort);
    const text = parameters.toString();
    return text === '' ? '' : `?${text}`;
}

/** Whether something is filtered out. */
export function isFiltered(view: View): boolean {
    const {text, labels, clusterSet, version, states} = view;
    return [text, labels, clusterSet, version].some(it => it !== '') || states.length > 0;
}
