import {React} from '../react';
import {onLink} from '../parts/route';
import {oneLine} from '../text/format';
import {STATES} from './judge';
import type {Row} from './rows';
import {useScroller} from './scroller';
import type {Memory} from './scroller';

/** Size of a square with its gap; `--acda-tile` of the style sheet. */
const TILE = 24;

function describe({cluster, state}: Row): string {
    const reason = cluster.lastError ? `, ${oneLine(cluster.lastError.reason).slice(0, 80)}` : '';
    return `${oneLine(cluster.name).slice(0, 80)}: ${STATES[state].label}${reason}`;
}

interface Props {
    rows: Row[];
    memory: Memory;
    urlOf: (cluster: string) => string;
}

/** One square for each cluster: its colour and its letter are the state. Arrow keys move between squares. */
function Squares({rows, memory, urlOf}: Props) {
    const keys = React.useMemo(() => rows.map(row => row.cluster.name), [rows]);
    const scroller = useScroller({keys, columns: null, cell: {width: TILE, height: TILE}, height: 200, head: 0, memory});
    const {columns, lines} = scroller;
    return (
        <div ref={scroller.ref} className='acda-scroll acda-map' onScroll={scroller.onScroll}>
            <div
                role={rows.length > 0 ? 'grid' : 'presentation'}
                aria-label={rows.length > 0 ? 'Map of clusters' : undefined}
                aria-rowcount={lines || undefined}
                aria-colcount={rows.length > 0 ? columns : undefined}
                className='acda-space'
                style={{height: lines * TILE}}
                onKeyDown={scroller.onKeyDown}>
                {scroller.drawn.map(line => (
                    <div key={line} role='row' aria-rowindex={line + 1} className='acda-map-row' style={{top: line * TILE}}>
                        {rows.slice(line * columns, (line + 1) * columns).map((row, column) => {
                            const {name} = row.cluster;
                            const url = urlOf(name);
                            return (
                                <div key={name} role='gridcell' aria-colindex={column + 1} className='acda-tile-cell'>
                                    <a
                                        href={url}
                                        data-key={name}
                                        className={`acda-tile acda-fill-${STATES[row.state].mood}`}
                                        tabIndex={name === scroller.active ? 0 : -1}
                                        aria-label={describe(row)}
                                        title={describe(row)}
                                        onFocus={() => scroller.onFocus(name)}
                                        onClick={event => onLink(event, url)}>
                                        <span aria-hidden='true'>{STATES[row.state].letter}</span>
                                    </a>
                                </div>
                            );
                        })}
                    </div>
                ))}
            </div>
        </div>
    );
}

/** Ages do not matter here, so the map is drawn again only for new rows. */
export const FleetMap = React.memo(Squares);
