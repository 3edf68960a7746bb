import {React} from '../react';
import {askFleet} from '../api/question';
import type {Fleet} from '../api/types';
import {ClusterPage} from '../cluster/page';
import {clockOffset} from '../poll/machine';
import {useNow, usePoll} from '../poll/use';
import {Answered} from '../parts/frame';
import {replaceQuery, useQuery} from '../parts/route';
import {count, oneLine} from '../text/format';
import {Filters} from './filters';
import {STATES, summary} from './judge';
import {FleetMap} from './map';
import {filter, keepOrder, rows, sort} from './rows';
import type {Row} from './rows';
import type {Memory} from './scroller';
import {Table} from './table';
import {readView, writeView} from './view';
import type {Sort, View} from './view';

/** Where the user was in table and map, while a page of a cluster was open. */
const TABLE: Memory = {scrollTop: 0, active: null, focus: false};
const MAP: Memory = {scrollTop: 0, active: null, focus: false};

/** The view of the address, and how to change it. The address changes with it; the page does not load again. */
function useView(): [View, (change: Partial<View>) => void] {
    const query = useQuery();
    const [chosen, setChosen] = React.useState(() => ({query, view: readView(query)}));
    // A link or the browser's buttons changed the address.
    const isOld = chosen.query !== query;
    const view = React.useMemo(() => (isOld ? readView(query) : chosen.view), [isOld, query, chosen]);
    const change = (part: Partial<View>) => {
        const next = {...view, ...part};
        setChosen({query, view: next});
        replaceQuery(writeView(next, window.location.search));
    };
    return [view, change];
}

/** Rows in the order of the view; in the order that the user sees, while pointer or focus is in the list. */
function useOrder(filtered: Row[], view: View, isInUse: React.RefObject<boolean>): Row[] {
    const kept = React.useRef<{by: string; names: string[]}>({by: '', names: []});
    return React.useMemo(() => {
        const sorted = sort(filtered, view.sort, view.descending);
        const by = writeView({...view, cluster: ''});
        const isKept = isInUse.current === true && kept.current.by === by;
        const shown = isKept ? keepOrder(sorted, kept.current.names) : sorted;
        kept.current = {by, names: shown.map(row => row.cluster.name)};
        return shown;
    }, [filtered, view, isInUse]);
}

/** One sentence about the fleet; screen readers hear it when it changes. */
function sentence(all: Row[]): string {
    const parts = summary(all.map(row => row.state)).map(([state, number]) => `${number} ${STATES[state].label}`);
    return `${count(all.length, 'cluster')}${parts.length > 0 ? ': ' : ''}${parts.join(', ')}`;
}

function Clusters({fleet, now}: {fleet: Fleet; now: number}) {
    const [view, change] = useView();
    const isInUse = React.useRef(false);
    const [hasPointer, hasFocus] = [React.useRef(false), React.useRef(false)];
    const all = React.useMemo(() => rows(fleet.clusters), [fleet]);
    const filtered = React.useMemo(() => filter(all, view), [all, view]);
    const shown = useOrder(filtered.rows, view, isInUse);
    const use = (sign: React.MutableRefObject<boolean>, value: boolean) => {
        sign.current = value;
        isInUse.current = hasPointer.current || hasFocus.current;
    };
    const onSort = (by: Sort) => change({sort: by, descending: by === view.sort && !view.descending});
    const urlOf = React.useCallback(
        (cluster: string) => window.location.pathname + writeView({...view, cluster}, window.location.search),
        [view],
    );
    return (
        <>
            <p role='status' className='acda-hidden'>
                {sentence(all)}
            </p>
            <Filters all={all} view={view} error={filtered.error} onChange={change} />
            <div
                onMouseEnter={() => use(hasPointer, true)}
                onMouseLeave={() => use(hasPointer, false)}
                onFocus={() => use(hasFocus, true)}
                onBlur={() => use(hasFocus, false)}>
                <FleetMap rows={shown} memory={MAP} urlOf={urlOf} />
                <Table rows={shown} now={now} order={view} memory={TABLE} onSort={onSort} urlOf={urlOf} />
            </div>
            <p className='acda-muted'>
                {shown.length === all.length ? count(all.length, 'cluster') : `${shown.length} of ${count(all.length, 'cluster')}`}
                {fleet.version !== '' && `; hub program ${oneLine(fleet.version).slice(0, 60)}`}
                {fleet.replica !== '' && `, answered by ${oneLine(fleet.replica).slice(0, 80)}`}
            </p>
        </>
    );
}

function NoClusters() {
    return (
        <p className='acda-muted'>
            No cluster has the add-on yet. To opt in: kubectl label managedcluster CLUSTER
            argocd-agent.open-cluster-management.io/mode=managed
        </p>
    );
}

function List() {
    const asked = usePoll(askFleet());
    const now = useNow();
    return (
        <Answered asked={asked} now={now}>
            {fleet => {
                const there = now + clockOffset(fleet.generatedAt, asked.poll.freshAt);
                return fleet.clusters.length === 0 ? <NoClusters /> : <Clusters fleet={fleet} now={there} />;
            }}
        </Answered>
    );
}

/** The page "Fleet": the table, or the cluster that the address names. */
export function FleetPage() {
    const view = readView(useQuery());
    const before = React.useRef(view.cluster);
    if (before.current !== view.cluster) {
        // Back in the table, the keyboard is where it was.
        if (view.cluster === '') {
            TABLE.active = before.current;
            TABLE.focus = true;
        }
        before.current = view.cluster;
    }
    const back = window.location.pathname + writeView({...view, cluster: ''}, window.location.search);
    return (
        <div className='acda acda-page'>
            {view.cluster === '' ? <List /> : <ClusterPage key={view.cluster} name={view.cluster} back={back} />}
        </div>
    );
}
