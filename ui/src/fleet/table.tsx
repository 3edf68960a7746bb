import {React} from '../react';
import type {Cluster, Connected} from '../api/types';
import {onLink} from '../parts/route';
import {Word} from '../parts/mark';
import {Age} from '../parts/text';
import {age, cut, left, oneLine} from '../text/format';
import {STATES, connectionText, withStatus} from './judge';
import type {Row} from './rows';
import {useScroller} from './scroller';
import type {Memory} from './scroller';
import type {Sort} from './view';

/** Fixed, so that the place of a row follows from its index; `--acda-row` of the style sheet. */
export const ROW_HEIGHT = 36;

/** Characters of a cell that are in the page. */
const LONGEST_CELL = 160;

interface Column {
    title: string;
    /** The order that its header chooses. */
    sort?: Sort;
    cell: (row: Row, now: number) => React.ReactNode;
}

function text(value: string | null | undefined): string {
    return value ? cut(oneLine(value), LONGEST_CELL).text : '-';
}

function lag({behind, behindSince}: Cluster['applications'], now: number): string {
    if (behind === 0) {
        return '-';
    }
    return behindSince === null ? String(behind) : `${behind} (${age(behindSince, now)})`;
}

function applications({total, troubled}: Cluster['applications']): string {
    return troubled === 0 ? String(total) : `${total} (${troubled} in trouble)`;
}

function Connection({connected: {state, since}, now}: {connected: Connected; now: number}) {
    return (
        <>
            {connectionText(state)}
            {since !== null && state !== 'not-yet' && (
                <>
                    {' ('}
                    <Age at={since} now={now} />)
                </>
            )}
        </>
    );
}

/** After the state and the name. */
const COLUMNS: Column[] = [
    {title: 'Lag', sort: 'lag', cell: ({cluster}, now) => lag(cluster.applications, now)},
    {
        title: 'Last error',
        cell: ({cluster: {lastError}}) => lastError && text(`${lastError.reason}: ${lastError.message}`),
    },
    {title: 'Connection', cell: ({cluster}, now) => <Connection connected={cluster.connected} now={now} />},
    {title: 'Apps', sort: 'applications', cell: ({cluster}) => applications(cluster.applications)},
    {title: 'Synced', cell: ({cluster}) => withStatus(cluster.applications.sync, 'Synced')},
    {title: 'Healthy', cell: ({cluster}) => withStatus(cluster.applications.health, 'Healthy')},
    {title: 'Version', sort: 'version', cell: ({cluster}) => text(cluster.version)},
    {title: 'Mode', cell: ({cluster}) => text(cluster.mode)},
    {
        title: 'Certificate',
        sort: 'certificate',
        cell: ({cluster: {certificateExpires: until}}, now) => (until === null ? '-' : left(until, now)),
    },
];

const HEAD: {title: string; sort?: Sort}[] = [{title: 'State', sort: 'urgency'}, {title: 'Cluster', sort: 'name'}, ...COLUMNS];

interface Order {
    sort: Sort;
    descending: boolean;
}

function Head({order, onSort}: {order: Order; onSort: (sort: Sort) => void}) {
    return (
        <div role='rowgroup' className='acda-table-head'>
            <div role='row' aria-rowindex={1} className='acda-row'>
                {HEAD.map(({title, sort}) => {
                    const isChosen = sort === order.sort;
                    const direction = order.descending ? 'descending' : 'ascending';
                    return (
                        <div key={title} role='columnheader' aria-sort={isChosen ? direction : sort && 'none'} className='acda-cell'>
                            {sort ? (
                                <button type='button' className='acda-sort' onClick={() => onSort(sort)}>
                                    {title}
                                    <span aria-hidden='true'>{isChosen ? (order.descending ? ' ▼' : ' ▲') : ''}</span>
                                </button>
                            ) : (
                                title
                            )}
                        </div>
                    );
                })}
            </div>
        </div>
    );
}

interface LineProps {
    row: Row;
    index: number;
    now: number;
    isActive: boolean;
    url: string;
    onFocus: (name: string) => void;
}

function Line({row, index, now, isActive, url, onFocus}: LineProps) {
    const {name} = row.cluster;
    const {mood, label} = STATES[row.state];
    return (
        <div role='row' aria-rowindex={index + 2} className={`acda-row acda-body-row acda-edge-${mood}`} style={{top: index * ROW_HEIGHT}}>
            <div role='cell' className='acda-cell'>
                <Word mood={mood}>{label}</Word>
            </div>
            <div role='rowheader' className='acda-cell'>
                <a
                    href={url}
                    data-key={name}
                    tabIndex={isActive ? 0 : -1}
                    className='acda-row-link'
                    onFocus={() => onFocus(name)}
                    onClick={event => onLink(event, url)}>
                    {text(name)}
                </a>
            </div>
            {COLUMNS.map(({title, cell}) => (
                <div key={title} role='cell' className='acda-cell'>
                    {cell(row, now)}
                </div>
            ))}
        </div>
    );
}

export interface TableProps {
    rows: Row[];
    now: number;
    order: Order;
    memory: Memory;
    onSort: (sort: Sort) => void;
    urlOf: (cluster: string) => string;
}

/** The clusters as a table. Arrow keys move between rows, Enter opens one. */
export function Table({rows, now, order, memory, onSort, urlOf}: TableProps) {
    const keys = React.useMemo(() => rows.map(row => row.cluster.name), [rows]);
    const cell = {width: 0, height: ROW_HEIGHT};
    const scroller = useScroller({keys, columns: 1, cell, height: 400, head: ROW_HEIGHT, memory});
    return (
        <div ref={scroller.ref} className='acda-scroll acda-clusters' onScroll={scroller.onScroll}>
            <div role='table' aria-label='Clusters' aria-rowcount={rows.length + 1} className='acda-table'>
                <Head order={order} onSort={onSort} />
                <div
                    role={rows.length > 0 ? 'rowgroup' : 'presentation'}
                    className='acda-space'
                    style={{height: rows.length * ROW_HEIGHT}}
                    onKeyDown={scroller.onKeyDown}>
                    {scroller.drawn.map(index => {
                        const row = rows[index];
                        return (
                            row && (
                                <Line
                                    key={row.cluster.name}
                                    row={row}
                                    index={index}
                                    now={now}
                                    isActive={row.cluster.name === scroller.active}
                                    url={urlOf(row.cluster.name)}
                                    onFocus={scroller.onFocus}
                                />
                            )
                        );
                    })}
                </div>
            </div>
            {rows.length === 0 && <p className='acda-muted acda-empty'>No cluster fits the filters.</p>}
        </div>
    );
}
